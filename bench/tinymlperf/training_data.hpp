// What the models of a benchmark learn from, what they are to bring down, and how they are checked on the way. All of it
// follows from the published seeds; no hidden set shares a sample with it.
#pragma once

#include <functional>
#include <string>
#include <tinymlperf/restoration.hpp>
#include <tinymlperf/task.hpp>
#include <tinytorch/data/digits.hpp>
#include <tinytorch/data/spoken_tones.hpp>
#include <tinytorch/layers/metrics.hpp>
#include <tinytorch/layers/sequential.hpp>

namespace tinymlperf {

namespace tt = tinytorch;

struct TrainingData {
  tt::Tensor inputs;   // f32 [N, the task's input...]
  tt::Tensor targets;  // N of what the loss compares outputs with
  tt::Loss loss;
  const char* metric;
  std::function<double(tt::Sequential&)> validate;  // higher is better; in evaluation mode

  int64_t size() const { return inputs.size(0); }
};

// How many samples, or clips of 12 windows, of each kind the bundled models see.
struct TrainingSize {
  int64_t training, validation;
};
inline TrainingSize training_size(std::string_view benchmark) {
  if (benchmark == "kws") return {4000, 1000};
  if (benchmark == "ad") return {400, 200};
  return {8000, 2000};
}

// Share of right answers; leaves the net in evaluation mode.
inline double accuracy_of(tt::Sequential& net, const tt::Tensor& inputs, const tt::Tensor& classes,
                          int64_t batch = 256) {
  const tt::NoGrad no_grad;
  net.eval();
  const int64_t n = inputs.size(0);
  double right = 0;
  for (int64_t start = 0; start < n; start += batch) {
    const int64_t end = std::min(start + batch, n);
    right += tt::accuracy(net(inputs.slice(0, start, end)), classes.slice(0, start, end)) *
             static_cast<double>(end - start);
  }
  return right / static_cast<double>(n);
}

namespace detail {

inline TrainingData classes_to_learn(const tt::Tensor& inputs, const tt::Tensor& classes,
                                     const tt::Tensor& held_out, const tt::Tensor& held_out_classes) {
  return {inputs, classes, tt::classification_loss, "accuracy",
          [=](tt::Sequential& net) { return accuracy_of(net, held_out, held_out_classes); }};
}

// Healthy machines to be restored; faults are heard by the check alone, never by the training.
inline TrainingData sounds_to_learn(const TrainingSize& size) {
  namespace ms = tt::machine_sounds;
  const tt::Tensor heard = ms::normal(size.training, kTrainingSeed).windows;
  const ms::MachineSounds held_out = ms::mixed(size.validation, kValidationSeed);
  const auto area = [=](tt::Sequential& net) {
    const tt::NoGrad no_grad;
    net.eval();
    return tt::roc_auc(restoration_errors(net, held_out.windows), held_out.labels);
  };
  const auto loss = [](const tt::Tensor& restored, const tt::Tensor& target) {
    return tt::mse_loss(restored, target);
  };
  return {heard, heard, loss, "area under the ROC curve", area};
}

}  // namespace detail

inline TrainingData training_data(std::string_view benchmark, const TrainingSize& size) {
  if (benchmark == "dig") {
    const tt::Digits train = tt::digits(size.training, kTrainingSeed),
                     validation = tt::digits(size.validation, kValidationSeed);
    return detail::classes_to_learn(train.images, train.labels, validation.images, validation.labels);
  }
  if (benchmark == "kws") {
    const tt::SpokenTones train = tt::spoken_tones(size.training, kTrainingSeed),
                          validation = tt::spoken_tones(size.validation, kValidationSeed);
    return detail::classes_to_learn(train.features, train.labels, validation.features, validation.labels);
  }
  if (benchmark == "ad") return detail::sounds_to_learn(size);
  throw std::invalid_argument("there is no training data for the benchmark " + std::string(benchmark));
}

}  // namespace tinymlperf
