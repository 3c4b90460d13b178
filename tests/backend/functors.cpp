// Scalar functions of the elementwise operations: special values as in C and PyTorch, integer wrap-around,
// and derivative functions against central differences.
#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <tinytorch/backend/functors.hpp>

using namespace tinytorch::backend;

namespace {

const double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

bool same(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

template <UnaryFn fn, class T = float>
T one(T x, T p0 = 0, T p1 = 0) {
  return unary_value<fn, T>(x, p0, p1);
}
template <BinaryFn fn, class T = float>
T two(T a, T b, T p0 = 0) {
  return binary_value<fn, T>(a, b, p0);
}

}  // namespace

TEST_CASE("floats to integers: toward zero, saturating, NaN is 0") {
  CHECK(convert<int32_t>(2.9f) == 2);
  CHECK(convert<int32_t>(-2.9f) == -2);
  CHECK(convert<int8_t>(1000.0f) == 127);
  CHECK(convert<int8_t>(-1000.0) == -128);
  CHECK(convert<uint8_t>(-1.0f) == 0);
  CHECK(convert<uint8_t>(255.9f) == 255);
  CHECK(convert<int64_t>(1e30) == std::numeric_limits<int64_t>::max());
  CHECK(convert<int64_t>(-1e30f) == std::numeric_limits<int64_t>::min());
  CHECK(convert<int64_t>(0x1p62) == int64_t{1} << 62);
  CHECK(convert<int32_t>(static_cast<float>(NAN)) == 0);
  CHECK(convert<int32_t>(2147483647.0) == 2147483647);
  CHECK(convert<int32_t>(-INFINITY) == std::numeric_limits<int32_t>::min());
}

TEST_CASE("conversions: integers wrap, bool is x != 0, 16-bit floats round once") {
  CHECK(convert<int8_t>(int32_t{300}) == 44);
  CHECK(convert<uint8_t>(int32_t{-1}) == 255);
  CHECK(convert<int32_t>((int64_t{1} << 32) + 5) == 5);
  CHECK(convert<bool>(0.1f));
  CHECK(convert<bool>(static_cast<float>(NAN)));
  CHECK_FALSE(convert<bool>(-0.0));
  CHECK(convert<bool>(tinytorch::Half(0.5f)));
  CHECK(convert<tinytorch::BFloat16>(1 + 0x1p-8 + 0x1p-40).bits == 0x3f81);
  CHECK(convert<float>(tinytorch::BFloat16(1.5f)) == 1.5f);
  CHECK(convert<double>(tinytorch::Half(1.5f)) == 1.5);
  CHECK(convert<int32_t>(tinytorch::Half(-7.9f)) == -7);
  CHECK(static_cast<float>(convert<tinytorch::Half>(int32_t{2049})) == 2048);
}

TEST_CASE("float power agrees with pow of C on every pair of special values") {
  const double values[] = {0.0,    -0.0,       1,       -1,    0.5,    -0.5,    2,  -2,   3,     -3,
                           2.5,    -2.5,       1e30,    -1e30, 4,      5,       -5, kInf, -kInf, kNaN,
                           0x1p24, 0x1p24 + 2, -0x1p30, 1e-30, 0x1p60, -0x1p60, 7,  33};
  for (const double a : values) {
    for (const double b : values) {
      const float x = static_cast<float>(a), y = static_cast<float>(b);
      const double want = static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y)));
      const double got = power(x, y);
      INFO("pow(", a, ", ", b, ") = ", got, ", C gives ", want);
      const double allowed = std::isfinite(want) ? 0x1p-23 * std::abs(want) + 0x1p-149 : 0;
      CHECK((same(got, want) || std::abs(got - want) <= allowed));
      CHECK(same(power(a, b), std::pow(a, b)));
    }
  }
}

TEST_CASE("NaN passes through every float function that takes one") {
  const float nan = NAN;
  CHECK(std::isnan(one<UnaryFn::neg>(nan)));
  CHECK(std::isnan(one<UnaryFn::abs>(nan)));
  CHECK(std::isnan(one<UnaryFn::square>(nan)));
  CHECK(std::isnan(one<UnaryFn::clamp>(nan, -1.0f, 1.0f)));
  CHECK(std::isnan(one<UnaryFn::relu>(nan)));
  CHECK(std::isnan(one<UnaryFn::leaky_relu>(nan, 0.1f)));
  CHECK(std::isnan(one<UnaryFn::silu>(nan)));
  CHECK(std::isnan(one<UnaryFn::gelu>(nan)));
  CHECK(std::isnan(one<UnaryFn::gelu_tanh>(nan)));
  for (const float x : {-1.0f, 0.0f, INFINITY}) {
    CHECK(std::isnan(two<BinaryFn::maximum>(nan, x)));
    CHECK(std::isnan(two<BinaryFn::maximum>(x, nan)));
    CHECK(std::isnan(two<BinaryFn::minimum>(nan, x)));
    CHECK(std::isnan(two<BinaryFn::minimum>(x, nan)));
    CHECK(two<BinaryFn::eq>(nan, x) == 0);
    CHECK(two<BinaryFn::ne>(nan, x) == 1);
    CHECK(two<BinaryFn::lt>(nan, x) == 0);
    CHECK(two<BinaryFn::ge>(x, nan) == 0);
  }
  CHECK(two<BinaryFn::ne>(nan, nan) == 1);
  CHECK(two<BinaryFn::logical_and>(nan, 1.0f) == 1);  // NaN is not zero
  CHECK(one<UnaryFn::logical_not>(nan) == 0);
}

TEST_CASE("infinities") {
  const float inf = INFINITY;
  CHECK(one<UnaryFn::clamp>(inf, -1.0f, 2.0f) == 2);
  CHECK(one<UnaryFn::clamp>(-inf, -1.0f, 2.0f) == -1);
  CHECK(one<UnaryFn::relu>(-inf) == 0);
  CHECK(one<UnaryFn::sign>(-inf) == -1);
  CHECK(one<UnaryFn::abs>(-inf) == inf);
  CHECK(one<UnaryFn::reciprocal>(0.0f) == inf);
  CHECK(one<UnaryFn::rsqrt>(inf) == 0);
  CHECK(std::isnan(one<UnaryFn::sqrt>(-1.0f)));
  CHECK(std::isnan(two<BinaryFn::div>(0.0f, 0.0f)));
  CHECK(two<BinaryFn::div>(-1.0f, 0.0f) == -inf);
  CHECK(std::signbit(one<UnaryFn::abs>(-0.0f)) == false);
}

TEST_CASE("halves round to even") {
  CHECK(one<UnaryFn::round>(0.5f) == 0);
  CHECK(one<UnaryFn::round>(1.5f) == 2);
  CHECK(one<UnaryFn::round>(2.5f) == 2);
  CHECK(one<UnaryFn::round>(-2.5f) == -2);
  CHECK(one<UnaryFn::round, double>(-0.5) == 0);
}

TEST_CASE("integers wrap") {
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max(), kMin = std::numeric_limits<int32_t>::min();
  CHECK(two<BinaryFn::add, int32_t>(kMax, 1) == kMin);
  CHECK(two<BinaryFn::sub, int32_t>(kMin, 1) == kMax);
  CHECK(two<BinaryFn::mul, int32_t>(kMax, 2) == -2);
  CHECK(one<UnaryFn::neg, int32_t>(kMin) == kMin);
  CHECK(one<UnaryFn::square, int32_t>(1 << 16) == 0);
  constexpr int64_t kBig = std::numeric_limits<int64_t>::max();
  CHECK(two<BinaryFn::add, int64_t>(kBig, 1) == std::numeric_limits<int64_t>::min());
  CHECK(two<BinaryFn::mul, int64_t>(kBig, kBig) == 1);
  CHECK(two<BinaryFn::maximum, int64_t>(kBig, kBig - 1) == kBig);
}

TEST_CASE("derivative functions equal central differences of their functions") {
  const double h = 1e-6;
  for (double x = -4.05; x < 4; x += 0.1) {
    const auto slope = [&](auto f) { return (f(x + h) - f(x - h)) / (2 * h); };
    const auto near = [&](double got, double want) { CHECK(got == doctest::Approx(want).epsilon(1e-6)); };
    near(two<BinaryFn::silu_grad, double>(2, x),
         2 * slope([](double v) { return one<UnaryFn::silu, double>(v); }));
    near(two<BinaryFn::gelu_grad, double>(2, x),
         2 * slope([](double v) { return one<UnaryFn::gelu, double>(v); }));
    near(two<BinaryFn::gelu_tanh_grad, double>(2, x),
         2 * slope([](double v) { return one<UnaryFn::gelu_tanh, double>(v); }));
    near(two<BinaryFn::leaky_relu_grad, double>(2, x, 0.1),
         2 * slope([](double v) { return one<UnaryFn::leaky_relu, double>(v, 0.1); }));
    const double y = std::tanh(x), s = 1 / (1 + std::exp(-x));
    near(two<BinaryFn::tanh_grad, double>(2, y), 2 * slope([](double v) { return std::tanh(v); }));
    near(two<BinaryFn::sigmoid_grad, double>(2, s),
         2 * slope([](double v) { return 1 / (1 + std::exp(-v)); }));
  }
}
