// What the models of a benchmark learn from, what they are to bring down, and how they are checked on the
// way. All of it follows from the published seeds; no hidden set shares a sample with it.
#pragma once

#include <functional>
#include <string>
#include <tinymlperf/benchmarks/restoration.hpp>
#include <tinymlperf/benchmarks/task.hpp>
#include <tinytorch/data/digits.hpp>
#include <tinytorch/data/grammar.hpp>
#include <tinytorch/data/spoken_tones.hpp>
#include <tinytorch/layers/metrics.hpp>
#include <tinytorch/transformer/language_model.hpp>

namespace tinymlperf {

namespace tt = tinytorch;

struct TrainingData {
  tt::Tensor inputs;   // [N, the task's input...]; f32, of text i64
  tt::Tensor targets;  // N of what the loss compares outputs with
  std::function<tt::Tensor(tt::Module&, const tt::Tensor& inputs, const tt::Tensor& targets)> loss;
  const char* metric;
  std::function<double(tt::Module&)> validate;  // higher is better; in evaluation mode

  int64_t size() const { return inputs.size(0); }
};

// How many samples of each kind the bundled models see: pictures, words, clips of 12 windows, windows of
// text.
struct TrainingSize {
  int64_t training, validation;
};
inline TrainingSize training_size(std::string_view benchmark) {
  if (benchmark == "kws") return {4000, 1000};
  if (benchmark == "ad") return {400, 200};
  if (benchmark == "lm") return {8000, 1000};
  return {8000, 2000};
}

// Share of right answers; leaves the net in evaluation mode.
inline double accuracy_of(tt::Module& net, const tt::Tensor& inputs, const tt::Tensor& classes,
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
  const auto loss = [](tt::Module& net, const tt::Tensor& x, const tt::Tensor& target) {
    return tt::cross_entropy(net(x), target);
  };
  return {inputs, classes, loss, "accuracy",
          [=](tt::Module& net) { return accuracy_of(net, held_out, held_out_classes); }};
}

// Healthy machines to be restored; faults are heard by the check alone, never by the training.
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

constexpr int64_t kWindowBytes = kContextBytes + 1;

// i64 [n, kWindowBytes], side by side
inline tt::Tensor text_windows(const std::string& text) {
  std::vector<int64_t> bytes;
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return tt::from_data(bytes, {static_cast<int64_t>(bytes.size()) / kWindowBytes, kWindowBytes});
}

// i64 [n, kWindowBytes], from anywhere in a text that has one
inline tt::Tensor some_windows(std::string_view text, int64_t n, uint64_t seed) {
  tt::Generator random(seed);
  std::string out;
  for (int64_t i = 0; i < n; ++i)
    out += text.substr(random.below(text.size() - kWindowBytes + 1), kWindowBytes);
  return text_windows(out);
}

inline tt::Tensor text_loss(tt::Module& net, const tt::Tensor& x, const tt::Tensor& target) {
  return dynamic_cast<tt::LanguageModel&>(net).loss(x, target);
}

// Every byte of a window is learned from those before it; the check is about the last one, as the benchmark
// is.
inline TrainingData windows_to_learn(const tt::Tensor& windows, const tt::Tensor& held_out) {
  const auto minus_bits = [=](tt::Module& net) {
    const tt::NoGrad no_grad;
    net.eval();
    auto& model = dynamic_cast<tt::LanguageModel&>(net);
    const tt::Tensor last = model.features(held_out.slice(1, 0, kContextBytes)).select(1, -1);  // [N, C]
    return -tt::cross_entropy(model.head(last), held_out.select(1, -1)).item<double>() / std::log(2.0);
  };
  return {windows.slice(1, 0, kContextBytes).contiguous(), windows.slice(1, 1).contiguous(), text_loss,
          "minus bits per byte", minus_bits};
}

}  // namespace detail

// Of a text of one's own (benchmarks/user_text.hpp): the check is on its last tenth, which is not learned.
inline TrainingData text_to_learn(const TrainingSize& size, std::string_view text) {
  const size_t first = text.size() - text.size() / 10;
  return detail::windows_to_learn(detail::some_windows(text.substr(0, first), size.training, kTrainingSeed),
                                  detail::some_windows(text.substr(first), size.validation, kValidationSeed));
}

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
  if (benchmark == "lm") {
    const auto windows = [](int64_t n, uint64_t seed) {
      return detail::text_windows(tt::grammar::text(n * detail::kWindowBytes, seed));
    };
    return detail::windows_to_learn(windows(size.training, kTrainingSeed),
                                    windows(size.validation, kValidationSeed));
  }
  throw std::invalid_argument("there is no training data for the benchmark " + std::string(benchmark));
}

}  // namespace tinymlperf
