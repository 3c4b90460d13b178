// What memory gives to the simplest work there is, in the same program as what is compared with it.
#pragma once

#include <cstring>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tensor/ops/creation.hpp>

namespace bench {

// Bytes per second, read plus written, of copying n floats with all threads; the median of 9 copies.
inline double copy_bytes_per_second(int64_t n) {
  const tinytorch::Tensor from = tinytorch::ones({n}), to = tinytorch::zeros({n});
  const auto copy = [&] {
    tinytorch::parallel_for(n, 65536, [&](int64_t begin, int64_t end) {
      std::memcpy(to.data<float>() + begin, from.data<float>() + begin, static_cast<size_t>(end - begin) * 4);
    });
  };
  return 8.0 * static_cast<double>(n) /
         tinytorch::statistics::median(tinytorch::benchmarking::time_calls(copy, 9));
}

}  // namespace bench
