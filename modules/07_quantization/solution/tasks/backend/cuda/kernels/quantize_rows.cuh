// Rows of floats as 8-bit codes with one scale per row (contract: backend/cpu/quantize_rows.hpp). Limit:
// memory bandwidth.
//
// Task 7.12: largest_of_block, quantize_row_kernel. The given parts of this header are in
// modules/07_quantization/frame/tinytorch/backend/cuda/kernels/quantize_rows.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The largest x of the block's kCodeThreads threads, in every thread; NaN if one of them is NaN (Maximum).
// All threads call it.
//
//   1. the largest of each warp: warp_reduce(x, Maximum())
//   2. lane 0 of each warp writes it to shared memory; barrier
//   3. every thread reads all of these
__device__ __forceinline__ float largest_of_block(float x) {
  constexpr int kWarps = kCodeThreads / kWarp;
  __shared__ float of_warp[kWarps];
  x = warp_reduce(x, Maximum());
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = x;
  __syncthreads();
  for (int w = 0; w < kWarps; ++w) x = Maximum()(x, of_warp[w]);
  return x;
}

// A block per row, blockIdx.x. Neighbouring threads have neighbouring columns: threadIdx.x, threadIdx.x +
// kCodeThreads, ... below K.
//
//   1. The magnitudes: each element is read from memory once, and the first kHeldColumns of the row are kept
//      in shared memory, where each thread finds its own again.
//   2. The largest of the block; its scale, to.scale_of(largest), which one thread writes to to.scale.
//   3. The codes: to.write(row, k, element, scale). Only columns from kHeldColumns on are read again.
static __global__ void __launch_bounds__(kCodeThreads) quantize_row_kernel(CodeRows to, FloatRows x) {
  __shared__ float held[kHeldColumns];
  const int64_t row = blockIdx.x;
  float largest = 0;
  for (int64_t k = threadIdx.x; k < x.K; k += kCodeThreads) {
    const float element = x.at(row, k);
    if (k < kHeldColumns) held[k] = element;
    largest = Maximum()(largest, fabsf(element));
  }
  const RowScale by = to.scale_of(largest_of_block(largest));
  if (threadIdx.x == 0) to.scale[row] = by.scale;
  for (int64_t k = threadIdx.x; k < x.K; k += kCodeThreads)
    to.write(row, k, k < kHeldColumns ? held[k] : x.at(row, k), by);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
