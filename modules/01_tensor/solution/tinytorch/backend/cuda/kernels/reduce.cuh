// Reductions: sum, product, extrema, any, all, sums of squares (arg-extrema and cumulative sums: scan.cuh).
//
// One block per result. Each thread folds every blockDim.x-th of its values, then the block folds its
// threads: by halves in shared memory until a warp is left, which needs shared memory no more. Floating
// values are added up in double, others as 64-bit integers. Deterministic: which thread folds what, and in
// which order, depends on the shape alone.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kFoldThreads = 256;  // threads of a block at most; a power of two, 32 at least

// A reduction as a kernel sees it.
struct Reduction {
  Operands<1> out, kept, reduced;  // the results; x by the kept dimensions; x by the reduced ones
  ReduceFn fn;
  double divisor;
};

inline Reduction reduction_of(ReduceFn fn, const View& out, const View& x, const bool* reduced,
                              double divisor) {
  Shape shape;
  Strides strides;
  Reduction p{Plan<1>({out}, 1).operands, part_of(x, reduced, false, shape, strides),
              part_of(x, reduced, true, shape, strides), fn, 1};
  p.kept.operand[0].data = x.data;
  p.kept.operand[0].dtype = x.dtype;
  if (fn == ReduceFn::sum || fn == ReduceFn::sum_square) p.divisor = divisor;
  return p;
}

// --- what is folded ---

// What joined with any value leaves it as it is.
template <class A>
__device__ __forceinline__ A neutral(ReduceFn fn) {
  using Limits = std::numeric_limits<A>;
  if (fn == ReduceFn::max) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  if (fn == ReduceFn::min) return Limits::has_infinity ? Limits::infinity() : Limits::max();
  return fn == ReduceFn::prod || fn == ReduceFn::all ? A(1) : A(0);
}

// Two partial results into one.
template <class A>
__device__ __forceinline__ A join(ReduceFn fn, A a, A b) {
  switch (fn) {
    case ReduceFn::prod:
      return a * b;
    case ReduceFn::max:
      return Maximum()(a, b);  // NaN wins
    case ReduceFn::min:
      return Minimum()(a, b);
    case ReduceFn::any:
      return a != A(0) || b != A(0) ? A(1) : A(0);
    case ReduceFn::all:
      return a != A(0) && b != A(0) ? A(1) : A(0);
    default:
      return a + b;
  }
}

// Value number i of result number r: x itself, its square for sum_square, and for any and all whether it is
// not 0.
template <class A>
__device__ __forceinline__ A value_of(const Reduction& p, int64_t r, int64_t i) {
  const int64_t at = p.kept.offset(0, r) + p.reduced.offset(0, i);
  A value{};
  for_any_stored(p.kept.operand[0].dtype,
                 [&]<class T>(T*) { value = to<A>(static_cast<const T*>(p.kept.operand[0].data)[at]); });
  if (p.fn == ReduceFn::sum_square) return value * value;
  if (p.fn == ReduceFn::any || p.fn == ReduceFn::all) return value != A(0) ? A(1) : A(0);
  return value;
}

// Result number r is `value`, divided and converted.
template <class A>
__device__ __forceinline__ void put_result(const Reduction& p, int64_t r, A value) {
  if (p.divisor != 1) value = static_cast<A>(static_cast<double>(value) / p.divisor);
  const int64_t at = p.out.offset(0, r);
  for_any_stored(p.out.operand[0].dtype,
                 [&]<class T>(T*) { static_cast<T*>(p.out.operand[0].data)[at] = to<T>(value); });
}

// --- the kernel ---

// The values of all threads of a block joined into one, which thread 0 gets; what the others get does not
// matter. All threads of the block call it; there are 32, 64, 128 or kFoldThreads of them.
//   First by halves, in shared memory: 128 threads join partial[t] with partial[t + 128], then 64 of them
// partial[t] with partial[t + 64], and so on until 32 values are left. Before a thread reads what another one
// wrote, all must have written: __syncthreads(), which all threads of the block must reach.
//   Then the first warp by shuffles: __shfl_down_sync(kAllLanes, value, step) is the `value` of the lane
// `step` further on, and needs no memory. 16, 8, 4, 2, 1.
template <class A>
static __device__ A fold_block(ReduceFn fn, A value) {
  __shared__ A partial[kFoldThreads];
  const unsigned t = threadIdx.x;
  partial[t] = value;
  for (unsigned half = blockDim.x / 2; half >= kWarp; half /= 2) {
    __syncthreads();
    if (t < half) partial[t] = join(fn, partial[t], partial[t + half]);
  }
  if (t < kWarp) {
    value = partial[t];
    for (unsigned step = kWarp / 2; step > 0; step /= 2) {
      value = join(fn, value, __shfl_down_sync(kAllLanes, value, step));
    }
  }
  return value;
}

// Block r makes result r of p.reduced.count values: each thread joins the values of numbers threadIdx.x,
// threadIdx.x + blockDim.x, ... (neighbouring threads read neighbouring values), beginning with
// neutral<A>(p.fn) since some may have none; then the block folds, and one thread stores.
template <class A>
static __global__ void __launch_bounds__(kFoldThreads) reduce_kernel(const __grid_constant__ Reduction p) {
  const int64_t r = blockIdx.x;
  A result = neutral<A>(p.fn);
  for (int64_t i = threadIdx.x; i < p.reduced.count; i += blockDim.x) {
    result = join(p.fn, result, value_of<A>(p, r, i));
  }
  result = fold_block(p.fn, result);
  if (threadIdx.x == 0) put_result(p, r, result);
}

// out = fn over the dimensions d of x with reduced[d]; sum and sum_square divided by `divisor`. Nothing to do
// for an empty out, else reduction_of(...) is what the kernel reads: p.out.count results of p.reduced.count
// values. One block for each result, launch(kernel, {dim3(blocks), dim3(threads)}, p), of kFoldThreads
// threads, or of fewer where there are fewer values, but 32 at least. Floating values in A = double, all
// others in A = int64_t.
void reduce(ReduceFn fn, const View& out, const View& x, const bool* reduced, double divisor) {
  if (out.numel() == 0) return;
  const Reduction p = reduction_of(fn, out, x, reduced, divisor);
  unsigned threads = kWarp;
  while (threads < kFoldThreads && threads < p.reduced.count) threads *= 2;
  const LaunchConfig config{dim3(static_cast<unsigned>(p.out.count)), dim3(threads)};
  is_floating(x.dtype) ? launch(reduce_kernel<double>, config, p) : launch(reduce_kernel<int64_t>, config, p);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
