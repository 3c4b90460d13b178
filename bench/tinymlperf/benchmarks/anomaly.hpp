// ad: anomaly detection in sound. Models are trained on healthy machines alone; half of the hidden set is
// faulty (data/machine_sounds.hpp).
//
// A sample is a clip, 12 windows of 640 numbers, and its answer one score, higher for less healthy. A model
// may compute it in any way; an autoencoder's score is the error of its restored windows (restoration.hpp).
//
// Timed scores may differ from the graded ones in their last digits, since sums in another order do. A
// constant must not profit from this: graded scores with tiny differences would rank clips, and a constant
// between them would agree with all. So quality counts scores as equal unless they differ by four times the
// tolerance of timed answers: a score that agrees contains everything that was graded.
#pragma once

#include <cmath>
#include <tinymlperf/benchmarks/auc.hpp>
#include <tinymlperf/benchmarks/descriptor.hpp>
#include <tinymlperf/benchmarks/restoration.hpp>
#include <tinytorch/data/machine_sounds.hpp>

namespace tinymlperf {

const Descriptor& anomaly_descriptor();

namespace judge {

class AnomalyBenchmark final : public Described {
 public:
  AnomalyBenchmark() : Described(anomaly_descriptor()) {}

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

}  // namespace judge

namespace detail {

// Healthy machines to restore; faulty ones are in the validation set alone.
inline TrainingData sounds_to_learn(const TrainingSize& size) {
  namespace ms = tt::machine_sounds;
  const tt::Tensor heard = ms::normal(size.training, kTrainingSeed).windows;
  const ms::MachineSounds held_out = ms::mixed(size.validation, kValidationSeed);
  const auto area = [=](tt::Module& net) {
    const tt::NoGrad no_grad;
    net.eval();
    return tt::roc_auc(restoration_errors(net, held_out.windows), held_out.labels);
  };
  const auto loss = [](tt::Module& net, const tt::Tensor& x, const tt::Tensor& target) {
    return tt::mse_loss(net(x), target);
  };
  return {heard, heard, loss, "area under the ROC curve", area};
}

// [640] -> [code] -> [640]
inline Json autoencoder(int64_t hidden, int64_t code) {
  Json layers = Json::array();
  int64_t width = 640;
  for (const int64_t next : {hidden, hidden, code, hidden, hidden}) {
    append(layers, {{{"type", "linear"}, {"in", width}, {"out", next}},
                    {{"type", "batch_norm1d"}, {"in", next}},
                    {{"type", "relu"}}});
    width = next;
  }
  layers.push_back({{"type", "linear"}, {"in", width}, {"out", 640}});
  return layers;
}

inline std::vector<BundledModel> anomaly_models() {
  return {
      {"autoencoder", "Squeezes a window of sound through 8 numbers. The baseline.", 20, 3e-3,
       Json{{"layers", autoencoder(128, 8)}}},
      {"autoencoder-narrow", "The same through 2 numbers, of 16 in a layer: too small.", 20, 3e-3,
       Json{{"layers", autoencoder(16, 2)}}},
  };
}

}  // namespace detail

inline const Descriptor& anomaly_descriptor() {
  static const Descriptor about{.shape = {"ad", {640}, 640, "outputs", false, true},
                                .question = "how unlike a healthy machine a clip sounds",
                                .metric = "area under the ROC curve",
                                .floor = 0.85,
                                .size = {400, 200},
                                .data = detail::sounds_to_learn,
                                .recipes = detail::anomaly_models,
                                .judged = judge::make_new<judge::AnomalyBenchmark>};
  return about;
}

}  // namespace tinymlperf
