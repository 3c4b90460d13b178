// dig: which digit is in a picture of 28 x 28. Generated (data/digits.hpp), so that a hidden set costs
// nothing.
#pragma once

#include <tinymlperf/benchmarks/classification.hpp>
#include <tinytorch/data/digits.hpp>

namespace tinymlperf::judge {

class DigitsBenchmark final : public Classification {
 public:
  std::string id() const override { return "dig"; }
  std::string task() const override { return "which digit is in a picture of 28 x 28 pixels"; }
  double floor() const override { return 0.80; }
  std::pair<tinytorch::Tensor, tinytorch::Tensor> generate(int64_t n, uint64_t seed) const override {
    const tinytorch::Digits digits = tinytorch::digits(n, seed);
    return {digits.images, digits.labels};
  }
};

}  // namespace tinymlperf::judge
