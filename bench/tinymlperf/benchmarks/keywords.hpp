// kws: which of ten words is said in a second of sound, or another one, or none. The samples are the log-mel
// features of generated speech (data/spoken_tones.hpp), not its wave: what is compared is the model and not a
// Fourier transform.
#pragma once

#include <tinymlperf/benchmarks/classification.hpp>
#include <tinytorch/data/spoken_tones.hpp>

namespace tinymlperf::judge {

class KeywordsBenchmark final : public Classification {
 public:
  std::string id() const override { return "kws"; }
  std::string task() const override { return "which of ten words is said, another one, or none"; }
  double floor() const override { return 0.90; }
  std::pair<tinytorch::Tensor, tinytorch::Tensor> generate(int64_t n, uint64_t seed) const override {
    const tinytorch::SpokenTones spoken = tinytorch::spoken_tones(n, seed);
    return {spoken.features, spoken.labels};
  }
};

}  // namespace tinymlperf::judge
