#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <tinytorch/backend/activation.hpp>

using namespace tinytorch::backend;

namespace {

double exact_sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double exact_gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
// The central difference (f(x + h) - f(x - h)) / 2h.
template <class F>
double slope(F&& f, double x) {
  constexpr double kStep = 1e-5;
  return (f(x + kStep) - f(x - kStep)) / (2 * kStep);
}
void check_near(double got, double want, double allowed) {
  CAPTURE(got);
  CAPTURE(want);
  CHECK(std::abs(got - want) <= allowed);
}

}  // namespace

TEST_CASE("values agree with the exact functions, in float and double") {
  for (double x = -30; x <= 30; x += 0.37) {
    const auto f = static_cast<float>(x);
    const double xf = static_cast<double>(f), scale = std::abs(xf) + 1;
    CHECK(relu_value(f) == std::max(f, 0.0f));
    CHECK(leaky_relu_value(x, 0.1) == (x < 0 ? 0.1 * x : x));
    check_near(sigmoid_value(f), exact_sigmoid(xf), 4e-7 * exact_sigmoid(xf));
    check_near(sigmoid_value(x), exact_sigmoid(x), 1e-15 * exact_sigmoid(x));
    check_near(silu_value(f), xf * exact_sigmoid(xf), 4e-7 * scale);
    check_near(gelu_value(f), 0.5 * xf * std::erfc(-xf / std::sqrt(2.0)), 4e-7 * scale);
    check_near(gelu_value(x), 0.5 * x * std::erfc(-x / std::sqrt(2.0)), 1e-15 * scale);
    check_near(gelu_tanh_value(f), exact_gelu_tanh(xf), 4e-7 * scale);
  }
}

TEST_CASE("derivatives equal central differences") {
  for (double x = -9; x <= 9; x += 0.31) {
    check_near(silu_derivative(x), slope([](double v) { return v * exact_sigmoid(v); }, x), 1e-9);
    check_near(gelu_derivative(x),
               slope([](double v) { return 0.5 * v * std::erfc(-v / std::sqrt(2.0)); }, x), 1e-9);
    check_near(gelu_tanh_derivative(x), slope(exact_gelu_tanh, x), 1e-9);
  }
}

TEST_CASE("values at large arguments, at infinity and for NaN") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  CHECK(sigmoid_value(-80.0f) == doctest::Approx(std::exp(-80.0)));
  CHECK(sigmoid_value(1000.0f) == 1);
  CHECK(sigmoid_value(kInf) == 1);
  CHECK(sigmoid_value(-kInf) == 0);
  CHECK(sigmoid_value(0.0) == 0.5);
  CHECK(relu_value(-3) == 0);
  CHECK(silu_value(-1000.0f) == 0);
  CHECK(gelu_value(1000.0f) == 1000);
  CHECK(gelu_tanh_value(-1000.0f) == 0);
  for (float (*f)(float) : {relu_value<float>, sigmoid_value<float>, silu_value<float>, gelu_value<float>,
                            gelu_tanh_value<float>}) {
    CHECK(std::isnan(f(std::nanf(""))));
  }
}
