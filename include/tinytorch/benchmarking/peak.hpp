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

// FLOP/s in f32 of ten independent chains of vector multiply-adds on every thread: the best of five, because
// neighbours and clocks only take away.
inline double measure_fma_peak() {
  using V = Simd<float>;
  constexpr int64_t kRounds = 2'000'000;
  std::vector<double> rates;
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::vector<float> sink(static_cast<size_t>(thread_count()));
    const double start = SteadyClock{}();
    parallel_for(thread_count(), 1, [&](int64_t begin, int64_t) {
      V a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{}, i{}, j{};
      V x = simd_broadcast(1.0f + static_cast<float>(begin) * 1e-9f);
      for (int64_t r = 0; r < kRounds; ++r) {
        a = a * x + x, b = b * x + x, c = c * x + x, d = d * x + x, e = e * x + x;
        f = f * x + x, g = g * x + x, h = h * x + x, i = i * x + x, j = j * x + x;
      }
      sink[static_cast<size_t>(begin)] = (a + b + c + d + e + f + g + h + i + j)[0];
    });
    const double seconds = SteadyClock{}() - start;
    rates.push_back(2.0 * 10 * kLanes<float> * kRounds * thread_count() / seconds);
  }
  return *std::max_element(rates.begin(), rates.end());
}

// FLOP/s of dense products of 16-bit floats, from NVIDIA's data sheets (SXM modules); 0: not known here.
inline double tensor_core_peak(const std::string& name) {
  if (name.find("H200") != std::string::npos || name.find("H100") != std::string::npos) return 989.5e12;
  return name.find("A100") != std::string::npos ? 312e12 : 0;
}

// Of products of `dtype` on `device`; 0 where it is not known.
inline double peak_flops(Device device, DType dtype) {
  if (device.is_cpu()) return measure_fma_peak();
  const bool narrow = dtype == DType::bf16 || dtype == DType::f16;
  return narrow ? tensor_core_peak(backend::cuda::properties(device.index).name) : 0;
}

}  // namespace tinytorch::inline TT_BUILD::benchmarking
