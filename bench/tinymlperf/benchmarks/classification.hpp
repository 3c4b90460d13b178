// Benchmarks of classification: an answer has one score for each class, and is right if the highest is at the
// sample's class. Such a benchmark only adds its data.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tinymlperf/benchmarks/descriptor.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>
#include <tinytorch/tensor/tensor.hpp>
#include <utility>

namespace tinymlperf::judge {

class Classification : public Described {
 public:
  using Described::Described;

  void draw(int64_t n, uint64_t seed) override {
    require_hidden_seed(seed);
    const auto [samples, labels] = generate(n, seed);
    values_ = samples.to_vector<float>();
    labels_ = labels.to_vector<int64_t>();
  }
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  channel::Tensors inputs(std::span<const int64_t> samples) const override {
    const Shape& one = shape().input;
    const int64_t each = std::accumulate(one.begin(), one.end(), int64_t{1}, std::multiplies<>());
    std::vector<float> values;
    values.reserve(samples.size() * static_cast<size_t>(each));
    for (const int64_t s : samples) {
      const auto first = values_.begin() + s * each;
      values.insert(values.end(), first, first + each);
    }
    Shape all{static_cast<int64_t>(samples.size())};
    all.insert(all.end(), one.begin(), one.end());
    return {channel::make_tensor(std::move(all), values)};
  }
  int64_t answer_size() const override { return shape().outputs; }
  Quality quality(const std::vector<Answer>& answers) const override {
    Quality q;
    int64_t correct = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      const bool right = class_of(answers[i]) == labels_[i];
      q.credit.push_back(right ? 1.0 : 0.0);
      correct += right;
    }
    q.value = tinytorch::statistics::bootstrap_proportion(correct, static_cast<int64_t>(answers.size()));
    return q;
  }
  bool agrees(const Answer& graded, const Answer& timed) const override {
    return class_of(graded) == class_of(timed);
  }

  // Samples and their classes, f32 [n, the task's input...] and i64 [n].
  virtual std::pair<tinytorch::Tensor, tinytorch::Tensor> generate(int64_t n, uint64_t seed) const = 0;

 private:
  // The first of the highest scores; -1, which is no class, if a score is NaN.
  static int64_t class_of(const Answer& scores) {
    if (std::any_of(scores.begin(), scores.end(), [](float s) { return std::isnan(s); })) return -1;
    return std::max_element(scores.begin(), scores.end()) - scores.begin();
  }
  std::vector<float> values_;
  std::vector<int64_t> labels_;
};

}  // namespace tinymlperf::judge
