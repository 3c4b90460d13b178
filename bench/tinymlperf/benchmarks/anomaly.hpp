// ad: how unlike a healthy machine a clip of sound is. Models are trained on healthy machines alone; the
// hidden set is half faulty ones (data/machine_sounds.hpp).
//
// A sample is a clip, 12 windows of 640 numbers, and its answer one score, higher for less healthy: how a
// model comes to it is its own affair. An autoencoder's is how badly it restores the windows
// (restoration.hpp).
//
// Timed scores may differ from the graded ones in their last digits, since sums of another order do. That
// must not let a constant pass for them: graded scores that differ by a trifle would rank clips, and the
// constant between them would agree with all. So quality counts scores as equal unless they differ by four
// times what may differ in time: whoever knows a score well enough to agree knows everything that was graded.
#pragma once

#include <cmath>
#include <tinymlperf/benchmarks/auc.hpp>
#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinymlperf/benchmarks/task.hpp>
#include <tinytorch/data/machine_sounds.hpp>

namespace tinymlperf::judge {

class AnomalyBenchmark final : public Benchmark {
 public:
  std::string id() const override { return "ad"; }
  std::string task() const override { return "how unlike a healthy machine a clip sounds"; }
  std::string metric() const override { return "area under the ROC curve"; }
  double floor() const override { return 0.85; }

  void draw(int64_t n, uint64_t seed) override {
    require_hidden_seed(seed);
    const auto sounds = tinytorch::machine_sounds::mixed(n, seed);
    windows_ = sounds.windows.to_vector<float>();
    labels_ = sounds.labels.to_vector<int64_t>();
  }
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  channel::Tensors inputs(std::span<const int64_t> samples) const override {
    namespace ms = tinytorch::machine_sounds;
    constexpr int64_t kClip = ms::kWindows * ms::kInputs;
    std::vector<float> values;
    values.reserve(samples.size() * kClip);
    for (const int64_t s : samples) {
      const auto first = windows_.begin() + s * kClip;
      values.insert(values.end(), first, first + kClip);
    }
    return {channel::make_tensor({static_cast<int64_t>(samples.size()), ms::kWindows, ms::kInputs}, values)};
  }
  int64_t answer_size() const override { return 1; }
  Quality quality(const std::vector<Answer>& answers) const override {
    std::vector<double> scores;
    for (const Answer& a : answers) scores.push_back(scale(a.at(0)));
    return {Auc(scores, labels_, kMargin).interval(),
            {},
            tinytorch::statistics::pair_wins(scores, labels_, kMargin)};
  }
  bool agrees(const Answer& graded, const Answer& timed) const override {
    return std::abs(scale(graded.at(0)) - scale(timed.at(0))) <= kTolerance;
  }

 private:
  // Relative far from 0, absolute (in thousandths) near it.
  static constexpr double kTolerance = 5e-4, kMargin = 4 * kTolerance;
  static double scale(float score) { return std::asinh(static_cast<double>(score) / 1e-3); }
  std::vector<float> windows_;
  std::vector<int64_t> labels_;
};

}  // namespace tinymlperf::judge
