// Work that runs into a ceiling of the machine and nothing else: to measure the ceilings by.
//
//   triad        out = a + s b, each element once: memory bandwidth (McCalpin, "Memory bandwidth and machine
//                balance in current high performance computers", 1995)
//   fma_chains   the same multiply-add again and again, in registers: peak arithmetic
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// All contiguous f32 of one size. Moves 12 bytes per element, and what the cache reads before it writes.
TT_API void triad(const View& out, const View& a, const View& b, float s);
// x[i] = x[i] / 2 + 1/2, `rounds` times: 2 n rounds FLOPs on n elements, contiguous f32. A multiply-add waits
// for the one before it, so ten vectors run side by side; elements beyond a multiple of that (160 with
// AVX-512) run one by one, far below the peak.
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

inline constexpr int kFmaChains = 10;  // registers that wait for each other; more than latency times units

// One register after the other would wait for each result: ten of them, side by side.
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
