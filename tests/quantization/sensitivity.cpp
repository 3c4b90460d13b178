#include <tinytorch/quantization/sensitivity.hpp>

#include <doctest/doctest.h>

#include <quantization/planted.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;
namespace q = tinytorch::quantization;

TEST_CASE("the error and the divergence of outputs, in double") {
  tt::Generator g(3);
  for (const int64_t V : {1, 2, 33}) {
    const tt::Tensor p = tt::randn({4, 3, V}, tt::f32, tt::cpu, g) * 3.0,
                     r = p + tt::randn({4, 3, V}, tt::f32, tt::cpu, g);
    const auto a = p.to_vector<double>(), b = r.to_vector<double>();
    double signal = 0, error = 0, kl = 0;
    for (size_t i = 0; i < a.size(); ++i) signal += a[i] * a[i], error += (a[i] - b[i]) * (a[i] - b[i]);
    const auto n = static_cast<size_t>(V);
    for (size_t row = 0; row < 12; ++row) {
      double from = 0, to = 0;
      for (size_t i = 0; i < n; ++i) from += std::exp(a[row * n + i]), to += std::exp(b[row * n + i]);
      for (size_t i = 0; i < n; ++i) {
        const double x = std::exp(a[row * n + i]) / from, y = std::exp(b[row * n + i]) / to;
        kl += x * std::log(x / y) / 12;
      }
    }
    // Two batches count as their rows.
    const std::vector<tt::Tensor> before{p.slice(0, 0, 1).contiguous(), p.slice(0, 1, 4).contiguous()},
        after{r.slice(0, 0, 1).contiguous(), r.slice(0, 1, 4).contiguous()};
    CHECK(q::relative_error(before, after) == doctest::Approx(error / signal));
    CHECK(q::divergence(before, after) == doctest::Approx(kl).epsilon(1e-9));
    CHECK(q::divergence(before, before) == doctest::Approx(0).epsilon(1e-12));
    CHECK(q::relative_error(before, before) == 0);
  }
  const tt::Tensor large = tt::from_data({1000.f, -1000.f, 0.f}, {1, 3}, tt::cpu);
  CHECK(std::isfinite(q::divergence({large}, {large * -1.0})));
  CHECK(q::divergence({}, {}) == 0);
  CHECK(q::divergence({tt::zeros({0, 4})}, {tt::zeros({0, 4})}) == 0);
  CHECK(q::relative_error({tt::zeros({2})}, {tt::ones({2})}) == 2);
}

TEST_CASE("outputs of a model are collected by batch, and the timer calls both forms of a layer") {
  tt::Linear layer(6, 4), other(6, 4);
  const tt::Tensor x = tt::ones({2, 6}), y = tt::ones({5, 6}) * 2.0;
  const std::vector<tt::Tensor> out = q::outputs_of(layer, {x, y}, tt::Loc::current());
  REQUIRE(out.size() == 2);
  CHECK(out[1].shape() == tt::Shape{5, 4});
  double before = -1, after = -1;
  q::LayerTimer timer(layer, other);
  layer(y);
  timer.measure(before, after);
  CHECK(before > 0);
  CHECK(after > 0);
}
