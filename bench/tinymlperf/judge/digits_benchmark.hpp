// dig: which digit is in a picture of 28 x 28. Generated (data/digits.hpp), so that a hidden set costs nothing.
#pragma once

#include <algorithm>
#include <tinymlperf/judge/benchmark.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>
#include <tinytorch/data/digits.hpp>

namespace tinymlperf::judge {

class DigitsBenchmark final : public Benchmark {
 public:
  std::string id() const override { return "dig"; }
  std::string task() const override { return "which digit is in a picture of 28 x 28 pixels"; }
  std::string metric() const override { return "accuracy"; }
  double floor() const override { return 0.80; }

  void draw(int64_t n, uint64_t seed) override {
    const tinytorch::Digits digits = tinytorch::digits(n, seed);
    pixels_ = digits.images.to_vector<float>();
    labels_ = digits.labels.to_vector<int64_t>();
  }
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  channel::Tensors inputs(std::span<const int64_t> samples) const override {
    std::vector<float> values;
    values.reserve(samples.size() * tinytorch::kDigitPixels);
    for (const int64_t s : samples) {
      const auto first = pixels_.begin() + s * tinytorch::kDigitPixels;
      values.insert(values.end(), first, first + tinytorch::kDigitPixels);
    }
    const auto n = static_cast<int64_t>(samples.size());
    return {channel::make_tensor({n, 1, tinytorch::kDigitSide, tinytorch::kDigitSide}, values)};
  }
  int64_t answer_size() const override { return 10; }  // a score for each digit
  Quality quality(const std::vector<Answer>& answers) const override {
    Quality q;
    int64_t correct = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      const bool right = digit_of(answers[i]) == labels_[i];
      q.credit.push_back(right ? 1.0 : 0.0);
      correct += right;
    }
    q.value = tinytorch::statistics::bootstrap_proportion(correct, static_cast<int64_t>(answers.size()));
    return q;
  }
  bool agrees(const Answer& graded, const Answer& timed) const override {
    return digit_of(graded) == digit_of(timed);
  }

 private:
  static int64_t digit_of(const Answer& scores) {
    return std::max_element(scores.begin(), scores.end()) - scores.begin();
  }
  std::vector<float> pixels_;
  std::vector<int64_t> labels_;
};

}  // namespace tinymlperf::judge
