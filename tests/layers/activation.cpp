#include <tinytorch/layers/activation.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/values.hpp>

namespace tt = tinytorch;

TEST_CASE("each module computes its formula") {
  const std::vector<double> x{-3, -0.5, 0, 0.25, 2};
  const auto check = [&](tt::Module&& m, auto f) {
    std::vector<double> expected;
    for (double v : x) expected.push_back(f(v));
    check_values(m(tt::from_data(x)).to_vector<double>(), expected, 1e-12);
    CHECK(m.named_parameters().empty());
  };
  check(tt::ReLU(), [](double v) { return v > 0 ? v : 0; });
  check(tt::LeakyReLU(0.2), [](double v) { return v > 0 ? v : 0.2 * v; });
  check(tt::Tanh(), [](double v) { return std::tanh(v); });
  check(tt::Sigmoid(), [](double v) { return 1 / (1 + std::exp(-v)); });
  check(tt::GELU(), [](double v) { return v * 0.5 * std::erfc(-v / std::sqrt(2.0)); });
  check(tt::SiLU(), [](double v) { return v / (1 + std::exp(-v)); });
  check(tt::Softplus(2), [](double v) { return std::log1p(std::exp(2 * v)) / 2; });
  check(tt::ELU(0.5), [](double v) { return v > 0 ? v : 0.5 * std::expm1(v); });
  check(tt::Hardswish(), [](double v) { return v * std::clamp(v + 3, 0.0, 6.0) / 6; });
  check(tt::Mish(), [](double v) { return v * std::tanh(std::log1p(std::exp(v))); });
  double total = 0;
  for (double v : x) total += std::exp(v);
  check(tt::Softmax(), [=](double v) { return std::exp(v) / total; });
  check(tt::LogSoftmax(), [=](double v) { return v - std::log(total); });
  check(tt::LogSigmoid(), [](double v) { return -std::log1p(std::exp(-v)); });
  check(tt::Softsign(), [](double v) { return v / (1 + std::abs(v)); });
  check(tt::ReLU6(), [](double v) { return std::clamp(v, 0.0, 6.0); });
  check(tt::Hardtanh(-0.3, 0.2), [](double v) { return std::clamp(v, -0.3, 0.2); });
  check(tt::Hardsigmoid(), [](double v) { return std::clamp(v / 6 + 0.5, 0.0, 1.0); });
  check(tt::SELU(),
        [](double v) { return 1.0507009873554805 * (v > 0 ? v : 1.6732632423543772 * std::expm1(v)); });
}

TEST_CASE("Softmax normalizes along its dimension") {
  const tt::Tensor y = tt::Softmax(0)(tt::zeros({4, 2}));
  check_values(y.to_vector<double>(), std::vector<double>(8, 0.25), 1e-7);
}

TEST_CASE("GLU halves its dimension, and PReLU learns one weight for each channel") {
  const tt::Tensor x = tt::from_data({1.0, -2.0, 0.0, 3.0}, {1, 4});
  check_values(tt::GLU()(x).to_vector<double>(), {0.5, -2 / (1 + std::exp(-3.0))}, 1e-12);
  tt::PReLU prelu(4);
  CHECK(prelu.weight.shape() == tt::Shape{4});
  const tt::Tensor y = prelu(x.to(tt::f32));
  check_values(y.to_vector<double>(), {1, -0.5, 0, 3}, 1e-7);
  tt::sum(y).backward();
  check_values(prelu.weight.grad().to_vector<double>(), {0, -2, 0, 0}, 1e-7);
}
