// A fused op is its composition: the same values (rounded less often) and the same gradients.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::expect_error;
using tt::Activation;
using tt::Tensor;

namespace {

Tensor activated(const Tensor& x, Activation fn) {
  switch (fn) {
    case Activation::relu:
      return tt::relu(x);
    case Activation::silu:
      return tt::silu(x);
    case Activation::gelu:
      return tt::gelu(x);
    case Activation::gelu_tanh:
      return tt::gelu_tanh(x);
    default:
      return x;
  }
}
constexpr Activation kAll[] = {Activation::none, Activation::relu, Activation::silu, Activation::gelu,
                               Activation::gelu_tanh};

// Largest distance, in units of the larger of 1 and the value.
double distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> u = a.to_vector<double>(), v = b.to_vector<double>();
  REQUIRE(u.size() == v.size());
  double worst = 0;
  for (size_t i = 0; i < u.size(); ++i)
    worst = std::max(worst, std::abs(u[i] - v[i]) / std::max(1.0, std::abs(v[i])));
  return worst;
}
double tolerance(tt::DType t) { return 4 * tt::epsilon_of(t == tt::f64 ? tt::f64 : t); }

Tensor random(const tt::Shape& shape, tt::DType t, uint64_t seed) {
  tt::Generator g(seed);
  return tt::randn(shape, t, tt::default_device(), g);
}

}  // namespace

TEST_CASE("bias_activation and linear_activation equal their compositions") {
  for (const tt::DType t : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    for (const int64_t n : {0, 1, 5, 33}) {
      for (const Activation fn : kAll) {
        const Tensor x = random({3, n, 7}, t, 1), b = random({7}, t, 2), w = random({5, 7}, t, 3),
                     c = random({5}, t, 4);
        CHECK(distance(tt::bias_activation(x, b, fn), activated(x + b, fn)) <= tolerance(t));
        const Tensor strided = random({n, 3, 7}, t, 1).transpose(0, 1);
        CHECK(distance(tt::bias_activation(strided, b, fn), activated(strided + b, fn)) <= tolerance(t));
        CHECK(distance(tt::linear_activation(x, w, c, fn), activated(tt::linear(x, w, c), fn)) <=
              2 * tolerance(t));
        CHECK(distance(tt::linear_activation(x, w, {}, fn), activated(tt::linear(x, w), fn)) <=
              2 * tolerance(t));
      }
    }
  }
  expect_error("TT-SHAPE-02", "bias_activation", [] {
    tt::bias_activation(tt::ones({2, 3}), tt::ones({2}), Activation::relu);
  });
  expect_error("TT-SHAPE-02", "linear", [] {
    tt::linear_activation(tt::ones({2, 3}), tt::ones({2, 4}), {}, Activation::relu);
  });
}

TEST_CASE("residual norms equal dropout, sum and norm; the generator moves by the same blocks") {
  for (const tt::DType t : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    for (const double p : {0.0, 0.3}) {
      const Tensor x = random({4, 3, 37}, t, 1), r = random({4, 3, 37}, t, 2), w = random({37}, t, 3),
                   b = random({37}, t, 4);
      tt::Generator one(9), two(9);
      const auto [y, s] = tt::residual_layer_norm(x, r, w, b, 1e-5, p, one);
      const Tensor sum = r + (p > 0 ? tt::dropout(x, p, two) : x);
      CHECK(one.state() == two.state());
      CHECK(distance(s, sum) <= tolerance(t));
      CHECK(distance(y, tt::layer_norm(s, w, b)) <= 2 * tolerance(t));
      const auto [z, q] = tt::residual_rms_norm(x, r, w, 1e-6, p, one);
      const Tensor again = r + (p > 0 ? tt::dropout(x, p, two) : x);
      CHECK(distance(q, again) <= tolerance(t));
      CHECK(distance(z, tt::rms_norm(q, w)) <= 2 * tolerance(t));
    }
  }
  CHECK(tt::residual_layer_norm(tt::zeros({0, 4}), tt::zeros({0, 4})).sum.shape() == tt::Shape{0, 4});
  expect_error("TT-SHAPE-02", "one shape", [] { tt::residual_layer_norm(tt::ones({2, 3}), tt::ones({3})); });
  expect_error("TT-RANGE-02", "dropout", [] {
    tt::residual_rms_norm(tt::ones({2, 3}), tt::ones({2, 3}), {}, 1e-6, 1.5);
  });
}
