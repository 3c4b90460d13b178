// Reductions: sum, product, extrema, any, all, sums of squares (arg-extrema and cumulative sums: scan.cuh).
//
// One block per result. Each thread folds every blockDim.x-th of its values, then the block folds its
// threads: by halves in shared memory until a warp is left, which needs shared memory no more. Floating
// values are added up in double, others as 64-bit integers. Deterministic: which thread folds what, and in
// which order, depends on the shape alone.
//
// Task 1.10: fold_block, reduce_kernel, reduce. The given parts of this header are in
// modules/01_tensor/frame/tinytorch/backend/cuda/kernels/reduce.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

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
