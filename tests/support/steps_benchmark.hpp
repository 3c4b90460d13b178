// A benchmark with a known number of steps, for tests of exploits and of the stability of ranks.
#pragma once

#include <cmath>
#include <exploits/task.hpp>
#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>
#include <tinytorch/core/random.hpp>

namespace test {

namespace channel = tinymlperf::channel;
namespace judge = tinymlperf::judge;

class StepsBenchmark : public judge::Benchmark {
 public:
  std::string id() const override { return "steps"; }
  std::string task() const override { return "where a congruential generator leads"; }
  std::string metric() const override { return "share of exact answers"; }
  double floor() const override { return 0.99; }
  void draw(int64_t n, uint64_t seed) override {
    tinytorch::Generator random(seed);
    numbers_.resize(static_cast<size_t>(n) * task::kNumbers);
    for (float& x : numbers_) x = static_cast<float>(random.uniform(0.1, 0.9));
  }
  int64_t size() const override { return static_cast<int64_t>(numbers_.size() / task::kNumbers); }
  channel::Tensors inputs(std::span<const int64_t> samples) const override {
    std::vector<float> values;
    for (const int64_t s : samples) {
      const auto first = numbers_.begin() + s * static_cast<int64_t>(task::kNumbers);
      values.insert(values.end(), first, first + task::kNumbers);
    }
    return {channel::make_tensor({static_cast<int64_t>(samples.size()), task::kNumbers}, values)};
  }
  int64_t answer_size() const override { return 1; }
  // The work is repeated here by the same function, compiled with other compiler options.
  judge::Quality quality(const std::vector<judge::Answer>& answers) const override {
    judge::Quality q;
    int64_t right = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      const float expected = task::work(std::span(numbers_).subspan(i * task::kNumbers, task::kNumbers));
      const bool exact = std::abs(answers[i].at(0) - expected) < 1e-5f;
      q.credit.push_back(exact ? 1 : 0);
      right += exact;
    }
    q.value = tinytorch::statistics::bootstrap_proportion(right, static_cast<int64_t>(answers.size()));
    return q;
  }
  bool agrees(const judge::Answer& graded, const judge::Answer& timed) const override {
    return std::abs(graded.at(0) - timed.at(0)) < 1e-6f;
  }

 private:
  std::vector<float> numbers_;
};

}  // namespace test
