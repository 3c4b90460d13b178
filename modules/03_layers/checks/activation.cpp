#include <support/check.hpp>
#include <tinytorch/backend/activation.hpp>

using namespace course;
using namespace tinytorch::backend;

namespace {

double exact_sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double exact_silu(double x) { return x * exact_sigmoid(x); }
double exact_gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double exact_gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

template <class T>
std::string call(const char* name, T x) {
  return std::string(name) + "(" + shown(x) + ") in " + name_of(dtype_of<T>);
}
// Compares at evenly spaced and random points of [-reach, reach]. A scale of 0 gives a relative tolerance, 1
// an absolute one.
template <class T, class F>
void compare(const char* name, F&& f, double (*exact)(double), double reach, double scale,
             double roundings = 8) {
  for (int k = 0; k <= 60; ++k) {
    const T x = static_cast<T>(k % 2 == 0 ? reach * (k / 30.0 - 1) : uniform(-reach, reach));
    const double exactly = static_cast<double>(x);
    expect_close(call(name, x), {static_cast<double>(f(x))}, {exact(exactly)}, {},
                 {.dtype = dtype_of<T>, .roundings = roundings, .scale = scale * (1 + std::abs(exactly))});
  }
}
// The reference of a derivative is a central difference of the exact function.
void compare_slope(const char* name, double (*f)(double), double (*exact)(double)) {
  constexpr double kStep = 1e-5;
  for (int k = 0; k <= 40; ++k) {
    const double x = k == 0 ? 0 : uniform(-6, 6), slope = (exact(x + kStep) - exact(x - kStep)) / (2 * kStep);
    expect_close(call(name, x), {f(x)}, {slope}, {}, {.dtype = f64, .roundings = 1e8});
  }
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("3.1 relu and leaky relu") {
  for (const float x : {-2.5f, -0.5f, -1e-4f, -0.0f, 0.0f, 0.25f, 7.0f}) {
    expect_equal(call("relu_value", x), relu_value(x), x > 0 ? x : 0.0f);
    expect_equal(call("leaky_relu_value, slope 0.125", x), leaky_relu_value(x, 0.125f),
                 x > 0 ? x : 0.125f * x);
  }
  expect_equal(call("leaky_relu_value, slope 2", 3.0), leaky_relu_value(3.0, 2.0), 3.0);
  expect_equal("relu_value(-7) of an integer", relu_value(int32_t{-7}), 0);
  expect("relu_value(NaN)", std::isnan(relu_value(kNaN)),
         "the result must be NaN: a comparison with NaN is false");
  expect("leaky_relu_value(NaN, 0.1)", std::isnan(leaky_relu_value(kNaN, 0.1f)), "the result must be NaN");
}

TEST_CASE("3.1 sigmoid is precise on both sides of 0") {
  expect_equal("sigmoid_value(0)", sigmoid_value(0.0), 0.5);
  compare<float>("sigmoid_value", sigmoid_value<float>, exact_sigmoid, 80, 0);
  compare<double>("sigmoid_value", sigmoid_value<double>, exact_sigmoid, 600, 0);
}

TEST_CASE("3.1 sigmoid of large inputs neither overflows nor underflows early") {
  expect_equal("sigmoid_value(1000)", sigmoid_value(1000.0f), 1.0f);
  expect_equal("sigmoid_value(-1000)", sigmoid_value(-1000.0f), 0.0f);
  expect_equal("sigmoid_value(inf)", sigmoid_value(kInf), 1.0f);
  expect_equal("sigmoid_value(-inf)", sigmoid_value(-kInf), 0.0f);
  expect("sigmoid_value(NaN)", std::isnan(sigmoid_value(kNaN)), "the result must be NaN");
  const float got = sigmoid_value(-95.0f);
  expect("sigmoid_value(-95) in f32 is e^-95 = 5.5e-42, got " + shown(got), got > 5.4e-42f && got < 5.6e-42f,
         "e^95 overflows; e^-95 does not");
}

TEST_CASE("3.1 silu and its derivative") {
  compare<float>("silu_value", silu_value<float>, exact_silu, 30, 1);
  compare<double>("silu_value", silu_value<double>, exact_silu, 30, 1);
  compare_slope("silu_derivative", silu_derivative<double>, exact_silu);
}

TEST_CASE("3.1 gelu and its derivative") {
  compare<float>("gelu_value", gelu_value<float>, exact_gelu, 9, 1);
  compare<double>("gelu_value", gelu_value<double>, exact_gelu, 9, 1);
  compare_slope("gelu_derivative", gelu_derivative<double>, exact_gelu);
}

TEST_CASE("3.1 gelu by tanh and its derivative") {
  compare<float>("gelu_tanh_value", gelu_tanh_value<float>, exact_gelu_tanh, 9, 1);
  compare<double>("gelu_tanh_value", gelu_tanh_value<double>, exact_gelu_tanh, 9, 1);
  compare_slope("gelu_tanh_derivative", gelu_tanh_derivative<double>, exact_gelu_tanh);
}
