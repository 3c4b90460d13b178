// dig: which digit is in a picture of 28 x 28 pixels. The pictures are generated (data/digits.hpp), so that a
// hidden set costs nothing.
#pragma once

#include <tinymlperf/benchmarks/classification.hpp>
#include <tinytorch/data/digits.hpp>

namespace tinymlperf {

const Descriptor& digits_descriptor();

namespace judge {

class DigitsBenchmark final : public Classification {
 public:
  DigitsBenchmark() : Classification(digits_descriptor()) {}
  std::pair<tinytorch::Tensor, tinytorch::Tensor> generate(int64_t n, uint64_t seed) const override {
    const tinytorch::Digits digits = tinytorch::digits(n, seed);
    return {digits.images, digits.labels};
  }
};

}  // namespace judge

namespace detail {

inline TrainingData digits_to_learn(const TrainingSize& size) {
  const tt::Digits train = tt::digits(size.training, kTrainingSeed),
                   validation = tt::digits(size.validation, kValidationSeed);
  return classes_to_learn(train.images, train.labels, validation.images, validation.labels);
}

// Four models, from too small to far too large.
inline std::vector<BundledModel> digit_models() {
  const auto layers = [](const char* text) { return Json{{"layers", Json::parse(text)}}; };
  return {
      {"linear", "One matrix: ten templates, one per digit.", 6, 5e-3,
       layers(R"([{"type": "flatten"}, {"type": "linear", "in": 784, "out": 10}])")},
      {"mlp", "Two layers without any idea of neighbourhood.", 6, 2e-3,
       layers(R"([{"type": "flatten"}, {"type": "linear", "in": 784, "out": 128}, {"type": "relu"},
                 {"type": "linear", "in": 128, "out": 10}])")},
      {"lenet", "Convolutions, pooling, three linear layers (LeCun et al. 1998). The baseline.", 5, 3e-3,
       layers(R"([{"type": "conv2d", "in": 1, "out": 6, "kernel": 5, "padding": 2}, {"type": "relu"},
                 {"type": "max_pool2d", "kernel": 2},
                 {"type": "conv2d", "in": 6, "out": 16, "kernel": 5}, {"type": "relu"},
                 {"type": "max_pool2d", "kernel": 2}, {"type": "flatten"},
                 {"type": "linear", "in": 400, "out": 120}, {"type": "relu"},
                 {"type": "linear", "in": 120, "out": 84}, {"type": "relu"},
                 {"type": "linear", "in": 84, "out": 10}])")},
      {"wasteful", "Wide convolutions at full resolution: many times the work of lenet.", 2, 2e-3,
       layers(R"([{"type": "conv2d", "in": 1, "out": 16, "kernel": 5, "padding": 2}, {"type": "relu"},
                 {"type": "conv2d", "in": 16, "out": 16, "kernel": 5, "padding": 2}, {"type": "relu"},
                 {"type": "max_pool2d", "kernel": 2},
                 {"type": "conv2d", "in": 16, "out": 32, "kernel": 5, "padding": 2}, {"type": "relu"},
                 {"type": "max_pool2d", "kernel": 2}, {"type": "flatten"},
                 {"type": "linear", "in": 1568, "out": 256}, {"type": "relu"},
                 {"type": "linear", "in": 256, "out": 10}])")},
  };
}

}  // namespace detail

inline const Descriptor& digits_descriptor() {
  static const Descriptor about{
      .shape = {kDigitsBenchmark, {1, 28, 28}, 10, "classes"},
      .question = "which digit is in a picture of 28 x 28 pixels",
      .metric = "accuracy",
      .floor = 0.80,
      .size = {8000, 2000},
      .data = detail::digits_to_learn,
      .recipes = detail::digit_models,
      .judged = judge::make_new<judge::DigitsBenchmark>,
      .target = TrainingTarget{.ranked = 0.95, .smoke = 0.35}};  // a small network after a few epochs
  return about;
}

}  // namespace tinymlperf
