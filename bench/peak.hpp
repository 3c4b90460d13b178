// The multiply-add peak of this machine, measured: the denominator of a compute-bound kernel's speed.
#pragma once

#include <algorithm>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd.hpp>
#include <vector>

namespace bench {

namespace tt = tinytorch;

// GFLOP/s of ten independent chains of vector multiply-adds on every thread. The chains start at different
// values: equal ones a compiler computes once. The best of some repeats: a limit has no neighbours.
inline double measure_fma_peak() {
  using V = tt::Simd<float>;
  constexpr int64_t kRounds = 2'000'000;
  constexpr int kChains = 10;
  std::vector<double> rates;
  for (int repeat = 0; repeat < 9; ++repeat) {
    std::vector<float> sink(static_cast<size_t>(tt::thread_count()));
    const double start = tt::benchmarking::SteadyClock{}();
    tt::parallel_for(tt::thread_count(), 1, [&](int64_t begin, int64_t) {
      const V x = tt::simd_broadcast(0.5f + static_cast<float>(begin) * 1e-9f);
      V chains[kChains];
      for (int i = 0; i < kChains; ++i) chains[i] = tt::simd_broadcast(static_cast<float>(begin + i));
      for (int64_t r = 0; r < kRounds; ++r) {
        TT_UNROLL
        for (int i = 0; i < kChains; ++i) chains[i] = chains[i] * x + x;
      }
      V sum{};
      for (const V& chain : chains) sum += chain;
      sink[static_cast<size_t>(begin)] = sum[0];
    });
    const double seconds = tt::benchmarking::SteadyClock{}() - start;
    rates.push_back(2.0 * kChains * tt::kLanes<float> * kRounds * tt::thread_count() / seconds * 1e-9);
  }
  return *std::ranges::max_element(rates);
}

}  // namespace bench
