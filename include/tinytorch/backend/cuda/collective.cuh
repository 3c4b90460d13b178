// Threads that combine values: over a warp by shuffles, over a block through shared memory. Every thread gets
// the result, and the order of combination depends on the block's size alone, so results are deterministic.
#pragma once

#include <tinytorch/backend/cuda/kernel.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

struct Sum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
// NaN wins.
struct Maximum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

// Over groups of kThreads neighbouring lanes (a power of two up to 32); all lanes of the warp take part.
template <int kThreads = kWarp, class T, class Op>
__device__ __forceinline__ T warp_reduce(T x, Op op) {
#pragma unroll
  for (int step = kThreads / 2; step > 0; step /= 2) x = op(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}

// Over a block of kThreads threads (a multiple of 32), all of which call it. `first` is op's neutral value.
// Safe to call repeatedly: it begins and ends in step.
template <int kThreads, class T, class Op>
__device__ __forceinline__ T block_reduce(T x, Op op, T first) {
  constexpr int kWarps = kThreads / kWarp;
  x = warp_reduce(x, op);
  if constexpr (kWarps == 1) return x;
  __shared__ T partial[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();  // the previous call's readers are done
  if (lane == 0) partial[warp] = x;
  __syncthreads();
  x = lane < kWarps ? partial[lane] : first;
  return warp_reduce(x, op);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
