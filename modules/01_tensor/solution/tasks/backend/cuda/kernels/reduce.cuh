// Reductions: sum, product, extrema, any, all, sums of squares (arg-extrema and cumulative sums: scan.cuh).
//
// One thread block per result. Each thread joins every blockDim.x-th value. Then the block joins the values
// of its threads: by halves in shared memory until one warp is left, and by shuffles within this warp. The
// accumulate type is double for floating elements, else a 64-bit integer. The order of the operations depends
// on the shape alone, so results are deterministic.
//
// Task 1.10: fold_block, reduce_kernel, reduce. The given parts of this header are in
// modules/01_tensor/frame/tinytorch/backend/cuda/kernels/reduce.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Joins the values of all threads of a block. Thread 0 returns the result; the return values of the others
// are not used. All threads of the block call it; there are 32, 64, 128 or kFoldThreads of them.
//   1. By halves, in shared memory: 128 threads join partial[t] with partial[t + 128], then 64 threads join
//      partial[t] with partial[t + 64], and so on until 32 values are left. Between a write and a read by
//      another thread there must be a __syncthreads(), which all threads of the block must reach.
//   2. The first warp, by shuffles: __shfl_down_sync(kAllLanes, value, step) is the `value` of the lane
//      that is `step` further on, and needs no memory. The steps are 16, 8, 4, 2, 1.
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

// Block r computes result r from p.reduced.count values. Each thread joins values number threadIdx.x,
// threadIdx.x + blockDim.x, ..., so that neighbouring threads read neighbouring values. It begins with
// neutral<A>(p.fn), because some threads may have no value. Then fold_block joins the threads' values, and
// one thread stores the result.
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

// out = fn over the dimensions d of x with reduced[d]; sum and sum_square are divided by `divisor`. An empty
// out needs no launch. Otherwise reduction_of(...) is the kernel's argument p: p.out.count results of
// p.reduced.count values each. Launch one block for each result, launch(kernel, {dim3(blocks),
// dim3(threads)}, p), of kFoldThreads threads, or of fewer if there are fewer values, but of 32 at least. A
// is double for floating elements, else int64_t.
void reduce(ReduceFn fn, const View& out, const View& x, const bool* reduced, double divisor) {
  if (out.numel() == 0) return;
  const Reduction p = reduction_of(fn, out, x, reduced, divisor);
  unsigned threads = kWarp;
  while (threads < kFoldThreads && threads < p.reduced.count) threads *= 2;
  const LaunchConfig config{dim3(static_cast<unsigned>(p.out.count)), dim3(threads)};
  is_floating(x.dtype) ? launch(reduce_kernel<double>, config, p) : launch(reduce_kernel<int64_t>, config, p);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
