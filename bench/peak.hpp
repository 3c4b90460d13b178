// The multiply-add peak of this machine, measured: the denominator of a compute-bound kernel's speed.
#pragma once

#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd.hpp>
#include <vector>

namespace bench {

namespace tt = tinytorch;

// GFLOP/s of ten independent chains of vector multiply-adds on every thread.
inline double measure_fma_peak() {
  using V = tt::Simd<float>;
  constexpr int64_t kRounds = 2'000'000;
  std::vector<double> rates;
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::vector<float> sink(static_cast<size_t>(tt::thread_count()));
    const double start = tt::benchmarking::SteadyClock{}();
    tt::parallel_for(tt::thread_count(), 1, [&](int64_t begin, int64_t) {
      V a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{}, i{}, j{};
      V x = tt::simd_broadcast(1.0f + static_cast<float>(begin) * 1e-9f);
      for (int64_t r = 0; r < kRounds; ++r) {
        a = a * x + x, b = b * x + x, c = c * x + x, d = d * x + x, e = e * x + x;
        f = f * x + x, g = g * x + x, h = h * x + x, i = i * x + x, j = j * x + x;
      }
      sink[static_cast<size_t>(begin)] = (a + b + c + d + e + f + g + h + i + j)[0];
    });
    const double seconds = tt::benchmarking::SteadyClock{}() - start;
    rates.push_back(2.0 * 10 * tt::kLanes<float> * kRounds * tt::thread_count() / seconds * 1e-9);
  }
  return tt::statistics::median(rates);
}

}  // namespace bench
