// Kernels that measure a machine's peaks: each is limited by memory bandwidth alone or by arithmetic alone.
//
//   triad        out = a + s b, each element once: memory bandwidth (McCalpin, "Memory bandwidth and machine
//                balance in current high performance computers", 1995)
//   fma_chains   a multiply-add repeated in registers: peak arithmetic throughput
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out = a + s b; all three are contiguous f32 of one size. It moves 12 bytes per element, and four more where
// the processor reads a cache line of `out` before writing it.
TT_API void triad(const View& out, const View& a, const View& b, float s);
// x[i] = x[i] / 2 + 1/2, `rounds` times: 2 n rounds FLOPs on n elements, contiguous f32. A multiply-add waits
// for the previous one of its chain, so ten vectors are computed in an interleaved loop. The remainder
// elements beyond a multiple of ten vectors (160 elements with AVX-512) are scalar and far below the peak.
TT_API void fma_chains(const View& x, int64_t rounds);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

TT_API void triad(const View& out, const View& a, const View& b, float s) {
  float* const to = out.as<float>();
  const float *const x = a.as<float>(), *const y = b.as<float>();
  parallel_for(out.numel(), 16384, [&](int64_t begin, int64_t end) {
    TT_SIMD
    for (int64_t i = begin; i < end; ++i) to[i] = x[i] + s * y[i];
  });
}

inline constexpr int kFmaChains = 10;  // independent chains: more than FMA latency times FMA units

// A single chain would be bound by latency, so the loop advances kFmaChains independent vectors.
inline void run_chains(float* x, int64_t rounds) {
  using V = Simd<float>;
  const V half = simd_broadcast(0.5f);
  V chains[kFmaChains];
  TT_UNROLL
  for (int k = 0; k < kFmaChains; ++k) chains[k] = simd_load(x + k * kLanes<float>);
  for (int64_t r = 0; r < rounds; ++r) {
    TT_UNROLL
    for (int k = 0; k < kFmaChains; ++k) chains[k] = chains[k] * half + half;
  }
  TT_UNROLL
  for (int k = 0; k < kFmaChains; ++k) simd_store(x + k * kLanes<float>, chains[k]);
}

TT_API void fma_chains(const View& x, int64_t rounds) {
  constexpr int64_t kGroup = kFmaChains * kLanes<float>;
  float* const values = x.as<float>();
  const int64_t n = x.numel(), groups = n / kGroup;
  parallel_for(groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) run_chains(values + g * kGroup, rounds);
  });
  for (int64_t i = groups * kGroup; i < n; ++i) {
    for (int64_t r = 0; r < rounds; ++r) values[i] = values[i] * 0.5f + 0.5f;
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
