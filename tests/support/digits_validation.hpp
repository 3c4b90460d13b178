// The validation samples of digits for simulated learners.
#pragma once

#include <tinymlperf/benchmarks/digits.hpp>
#include <vector>

namespace test {

inline constexpr int64_t kValidationSamples = 100;
inline constexpr uint64_t kValidationSeed = 5;

inline const tinymlperf::judge::DigitsBenchmark& validation() {
  static const tinymlperf::judge::DigitsBenchmark drawn = [] {
    tinymlperf::judge::DigitsBenchmark b;
    b.draw(kValidationSamples, kValidationSeed);
    return b;
  }();
  return drawn;
}

inline const std::vector<int64_t>& validation_labels() {
  static const auto labels =
      tinytorch::digits(kValidationSamples, kValidationSeed).labels.to_vector<int64_t>();
  return labels;
}

}  // namespace test
