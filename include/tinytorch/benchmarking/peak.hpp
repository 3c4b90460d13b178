// Peaks of multiply-adds: the denominator of a compute-bound program's speed. The CPU's is measured; a GPU's is
// what its maker says of dense products on tensor cores.
#pragma once

#include <algorithm>
#include <string>
#include <tinytorch/backend/cuda/runtime.hpp>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/core/dtype.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::benchmarking {

// FLOP/s in f32 of ten independent chains of vector multiply-adds on every thread. The chains start at different
// values: equal ones a compiler computes once. The best of nine, because neighbours and clocks only take away.
inline double measure_fma_peak() {
  using V = Simd<float>;
  constexpr int64_t kRounds = 2'000'000;
  constexpr int kChains = 10;
  std::vector<double> rates;
  for (int repeat = 0; repeat < 9; ++repeat) {
    std::vector<float> sink(static_cast<size_t>(thread_count()));
    const double start = SteadyClock{}();
    parallel_for(thread_count(), 1, [&](int64_t begin, int64_t) {
      const V x = simd_broadcast(0.5f + static_cast<float>(begin) * 1e-9f);
      V chains[kChains];
      for (int i = 0; i < kChains; ++i) chains[i] = simd_broadcast(static_cast<float>(begin + i));
      for (int64_t r = 0; r < kRounds; ++r) {
        TT_UNROLL
        for (int i = 0; i < kChains; ++i) chains[i] = chains[i] * x + x;
      }
      V sum{};
      for (const V& chain : chains) sum += chain;
      sink[static_cast<size_t>(begin)] = sum[0];
    });
    const double seconds = SteadyClock{}() - start;
    rates.push_back(2.0 * kChains * kLanes<float> * kRounds * thread_count() / seconds);
  }
  return *std::ranges::max_element(rates);
}

// FLOP/s of dense products of 16-bit floats, from NVIDIA's data sheets (SXM modules); 0: not known here.
inline double tensor_core_peak(const std::string& name) {
  if (name.find("H200") != std::string::npos || name.find("H100") != std::string::npos) return 989.5e12;
  return name.find("A100") != std::string::npos ? 312e12 : 0;
}

// Of products of `dtype` on `device`; 0 where it is not known.
inline double peak_flops(Device device, DType dtype) {
  if (device.is_cpu()) return measure_fma_peak();
  return is_16_bit(dtype) ? tensor_core_peak(backend::cuda::properties(device.index).name) : 0;
}

}  // namespace tinytorch::inline TT_BUILD::benchmarking
