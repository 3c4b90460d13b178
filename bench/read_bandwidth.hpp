// The read bandwidth of memory, for benchmarks that are limited by reading weights or a cache once.
#pragma once

#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd.hpp>
#include <tinytorch/tensor/tensor.hpp>

namespace bench {

// Reads all bytes once, in four concurrent streams. The value of the sum does not matter.
inline void read_all(const tinytorch::Tensor& bytes) {
  constexpr int64_t kL = tinytorch::kLanes<int64_t>, kStreams = 4;
  const auto* const data = reinterpret_cast<const int64_t*>(bytes.data<uint8_t>());
  const int64_t stream = bytes.numel() / 8 / kStreams / kL * kL;
  tinytorch::parallel_for(stream, 1 << 14, [&](int64_t begin, int64_t end) {
    tinytorch::Simd<int64_t> sum[kStreams] = {};
    for (int64_t i = begin; i < end; i += kL)
      for (int64_t k = 0; k < kStreams; ++k) sum[k] += tinytorch::simd_load(data + k * stream + i);
    const tinytorch::Simd<int64_t> all = sum[0] + sum[1] + sum[2] + sum[3];
    asm volatile("" : : "m"(all));
  });
}

}  // namespace bench
