// Kernels that measure a GPU's peaks: memory bandwidth, and arithmetic throughput in f32.
//
//   triad        out = a + s b, contiguous f32, each aligned to 16 bytes
//   fma_chains   x = x / 2 + 1/2, `rounds` times, contiguous f32
//
// A tensor that starts at the beginning of its storage is aligned to 16 bytes. The triad needs many bytes in
// flight: each thread reads 16 bytes per access. The chains need many independent multiply-adds: each takes
// four cycles, so a thread has eight chains, which stay in registers for all rounds. Each function is one
// launch, and reads and writes every element once.
#pragma once

#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kPeakBlock = 256, kChainsOfThread = 8;

static __global__ void __launch_bounds__(kPeakBlock)
    triad_kernel(float* out, const float* a, const float* b, float s, int64_t n) {
  const int64_t first = 4 * (static_cast<int64_t>(blockIdx.x) * kPeakBlock + threadIdx.x);
  if (first + 4 <= n) {
    const float4 x = *reinterpret_cast<const float4*>(a + first),
                 y = *reinterpret_cast<const float4*>(b + first);
    *reinterpret_cast<float4*>(out + first) =
        make_float4(x.x + s * y.x, x.y + s * y.y, x.z + s * y.z, x.w + s * y.w);
    return;
  }
  for (int64_t i = first; i < n; ++i) out[i] = a[i] + s * b[i];
}

void triad(const View& out, const View& a, const View& b, float s) {
  launch(triad_kernel, over(ceil_div(out.numel(), 4), kPeakBlock), out.as<float>(), a.as<float>(),
         b.as<float>(), s, out.numel());
}

// The elements of a thread are a block's width apart, so that a warp's accesses are coalesced.
static __global__ void __launch_bounds__(kPeakBlock) fma_chains_kernel(float* x, int64_t n, int64_t rounds) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kPeakBlock * kChainsOfThread + threadIdx.x;
  float chains[kChainsOfThread];
#pragma unroll
  for (int k = 0; k < kChainsOfThread; ++k) {
    const int64_t i = first + k * kPeakBlock;
    chains[k] = i < n ? x[i] : 0.0f;
  }
#pragma unroll 4
  for (int64_t r = 0; r < rounds; ++r) {
#pragma unroll
    for (int k = 0; k < kChainsOfThread; ++k) chains[k] = chains[k] * 0.5f + 0.5f;
  }
#pragma unroll
  for (int k = 0; k < kChainsOfThread; ++k) {
    const int64_t i = first + k * kPeakBlock;
    if (i < n) x[i] = chains[k];
  }
}

void fma_chains(const View& x, int64_t rounds) {
  launch(fma_chains_kernel, over(ceil_div(x.numel(), kChainsOfThread), kPeakBlock), x.as<float>(), x.numel(),
         rounds);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
