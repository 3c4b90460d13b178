// Warp and block reductions: over a warp by shuffles, over a thread block by shared memory. Every thread gets
// the result; and prefix sums over a warp. The order of the operations depends only on the block size, so
// results are deterministic.
#pragma once

#include <cstring>
#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <type_traits>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

struct Sum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
// Maximum and Minimum give NaN if one of the operands is NaN.
struct Maximum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (std::is_same_v<T, float>) {
      float larger;
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
      return larger;
    }
#endif
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

// The x of lane (own lane xor step). x may be a struct whose size is a multiple of 4 bytes.
template <class T>
__device__ __forceinline__ T shuffle_xor(const T& x, int step) {
  if constexpr (std::is_arithmetic_v<T>) {
    return __shfl_xor_sync(kAllLanes, x, step);
  } else {
    static_assert(sizeof(T) % sizeof(unsigned) == 0);
    unsigned words[sizeof(T) / sizeof(unsigned)];
    memcpy(words, &x, sizeof(T));
#pragma unroll
    for (unsigned& word : words) word = __shfl_xor_sync(kAllLanes, word, step);
    T y;
    memcpy(&y, words, sizeof(T));
    return y;
  }
}

// Reduces x over groups of kThreads neighbouring lanes (a power of two up to 32). All lanes of the warp call
// it.
template <int kThreads = kWarp, class T, class Op>
__device__ __forceinline__ T warp_reduce(T x, Op op) {
#pragma unroll
  for (int step = kThreads / 2; step > 0; step /= 2) x = op(x, shuffle_xor(x, step));
  return x;
}

// Inclusive prefix sum over the lanes of a warp. All lanes of the warp call it.
template <class A>
__device__ __forceinline__ A warp_scan(A x) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const A below = __shfl_up_sync(kAllLanes, x, static_cast<unsigned>(step));
    if (lane >= step) x += below;
  }
  return x;
}

// Reduces x over a thread block of kThreads threads (a power of two, at least 32). All threads of the block
// call it, any number of times: a barrier at the start protects the results of the previous call.
template <int kThreads, class T, class Op>
__device__ __forceinline__ T block_reduce(T x, Op op) {
  constexpr int kWarps = kThreads / kWarp;
  static_assert(kWarps > 0 && (kThreads & (kThreads - 1)) == 0);
  x = warp_reduce(x, op);
  if constexpr (kWarps == 1) return x;
  __shared__ T partial[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();  // the previous call's readers are done
  if (lane == 0) partial[warp] = x;
  __syncthreads();
  return warp_reduce<kWarps>(partial[lane % kWarps], op);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
