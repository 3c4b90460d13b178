// Peak arithmetic throughput, the denominator of the speed of compute-bound programs. The CPU's peak is
// measured; a GPU's is the data sheet value for dense tensor-core products.
#pragma once

#include <algorithm>
#include <string>
#include <tinytorch/backend/cpu/peak_kernels.hpp>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/core/dtype.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::benchmarking {

// FLOP/s of f32 multiply-adds in registers, on all threads. It is the best of many short measurements,
// because other work and lower clock rates can only reduce it.
inline double measure_fma_peak() {
  constexpr int64_t kRounds = 20'000, kOfThread = 10 * 16;  // enough elements for the widest registers
  std::vector<float> values(static_cast<size_t>(kOfThread * thread_count()), 2.0f);
  const auto n = static_cast<int64_t>(values.size());
  const backend::View view{values.data(), DType::f32, {n}, {1}};
  std::vector<double> rates;
  for (int repeat = 0; repeat < 150; ++repeat) {
    const double start = SteadyClock{}();
    backend::cpu::fma_chains(view, kRounds);
    rates.push_back(2.0 * static_cast<double>(n * kRounds) / (SteadyClock{}() - start));
  }
  return *std::ranges::max_element(rates);
}

// FLOP/s of dense 16-bit products, from NVIDIA's data sheets (SXM modules); 0: unknown.
inline double tensor_core_peak(const std::string& name) {
  if (name.find("H200") != std::string::npos || name.find("H100") != std::string::npos) return 989.5e12;
  return name.find("A100") != std::string::npos ? 312e12 : 0;
}

// Peak FLOP/s of products of `dtype` on `device`; 0: unknown.
inline double peak_flops(Device device, DType dtype) {
  if (device.is_cpu()) return measure_fma_peak();
  return is_16_bit(dtype) ? tensor_core_peak(backend::cuda::properties(device.index).name) : 0;
}

}  // namespace tinytorch::inline TT_BUILD::benchmarking
