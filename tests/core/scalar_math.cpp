// Vectorizable elementary functions against libm in the next wider type, over the whole range of floats.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <tinytorch/core/random.hpp>
#include <tinytorch/core/scalar_math.hpp>
#include <ulps.hpp>

namespace tt = tinytorch;
namespace math = tinytorch::math;

namespace {

using bench::ulps;

// The largest error over every 1,021st float with |x| <= limit.
template <class F, class G>
double worst_float(F f, G exact, float limit = INFINITY) {
  double worst = 0;
  for (uint64_t bits = 0; bits < 0x1'0000'0000; bits += 1021) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!(std::abs(x) <= limit)) continue;
    worst = std::max(worst, ulps(f(x), exact(static_cast<double>(x))));
  }
  return worst;
}

template <class F, class G>
double worst_double(F f, G exact, double low, double high) {
  tt::Generator g(11);
  double worst = 0;
  for (int i = 0; i < 300'000; ++i) {
    const double x = g.uniform(low, high);
    worst = std::max(worst, ulps(f(x), exact(static_cast<long double>(x))));
  }
  return worst;
}

const float kInf = INFINITY, kNaN = NAN;

}  // namespace

TEST_CASE("exp") {
  CHECK(worst_float([](float x) { return math::exp(x); }, [](double x) { return std::exp(x); }) <= 1.1);
  CHECK(worst_double([](double x) { return math::exp(x); }, [](long double x) { return std::exp(x); }, -740,
                     709) <= 1.5);
  CHECK(math::exp(0.0f) == 1);
  CHECK(math::exp(-kInf) == 0);
  CHECK(math::exp(kInf) == kInf);
  CHECK(std::isnan(math::exp(kNaN)));
  CHECK(std::isnan(math::exp(static_cast<double>(kNaN))));
  CHECK(math::exp(710.0) == INFINITY);
  CHECK(math::exp(-800.0) == 0);
  // Range::below_zero: the same bits if the result is a normal number, else at most the smallest normal
  // number.
  const auto below = [](auto x) { return math::exp<math::Range::below_zero>(x); };
  int differ = 0;
  for (float x = 0.25f; x > -87.0f; x -= 0.00137f) differ += below(x) != math::exp(x);
  for (double x = 0.25; x > -708.0; x -= 0.0137) differ += below(x) != math::exp(x);
  CHECK(differ == 0);
  float most = 0;
  for (float x = -87.4f; x > -200.0f; x -= 0.0137f) most = std::max(most, below(x));
  CHECK(most <= std::numeric_limits<float>::min());
  CHECK(below(-kInf) == 0);
  CHECK(below(-static_cast<double>(kInf)) == 0);
  CHECK(std::isnan(below(kNaN)));
}

TEST_CASE("log") {
  CHECK(worst_float([](float x) { return math::log(x); }, [](double x) { return std::log(x); }) <= 1);
  CHECK(worst_double([](double x) { return math::log(x); }, [](long double x) { return std::log(x); }, 0,
                     10) <= 2);
  CHECK(worst_double([](double x) { return math::log(x); }, [](long double x) { return std::log(x); }, 0.9,
                     1.1) <= 2);
  CHECK(math::log(1.0f) == 0);
  CHECK(math::log(0.0f) == -kInf);
  CHECK(math::log(-0.0f) == -kInf);
  CHECK(math::log(kInf) == kInf);
  CHECK(std::isnan(math::log(-1.0f)));
  CHECK(std::isnan(math::log(-kInf)));
  CHECK(std::isnan(math::log(kNaN)));
  CHECK(math::log(0x1p-149f) == doctest::Approx(-149 * std::log(2.0)));
  CHECK(math::log(0x1p-1074) == doctest::Approx(-1074 * std::log(2.0)));
}

TEST_CASE("tanh, erf") {
  CHECK(worst_float([](float x) { return math::tanh(x); }, [](double x) { return std::tanh(x); }) <= 2.7);
  CHECK(worst_float([](float x) { return math::erf(x); }, [](double x) { return std::erf(x); }) <= 1.5);
  for (const float sign : {1.0f, -1.0f}) {
    CHECK(math::tanh(sign * kInf) == sign);
    CHECK(math::erf(sign * kInf) == sign);
  }
  CHECK(std::isnan(math::tanh(kNaN)));
  CHECK(std::isnan(math::erf(kNaN)));
  CHECK(std::signbit(math::erf(-0.0f)));
  CHECK(std::signbit(math::tanh(-0.0f)));
  CHECK(!std::signbit(math::tanh(0.0f)));
  float most = 0;
  for (float x = 2; x < 12; x = std::nextafter(x, kInf) + 1e-5f)
    most = std::max({most, math::tanh(x), math::erf(x), -math::tanh(-x), -math::erf(-x)});
  CHECK(most == 1);
}

TEST_CASE("normal_cdf: absolute error of two ulps of 1/2, relative error in the lower tail, limits 0 and 1") {
  double worst = 0, worst_tail = 0;
  for (uint64_t bits = 0; bits < 0x1'0000'0000; bits += 1021) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnan(x)) continue;
    const double exact = 0.5 * std::erfc(static_cast<double>(x) * -std::sqrt(0.5));
    const double error = std::abs(static_cast<double>(math::normal_cdf(x)) - exact);
    worst = std::max(worst, error);
    if (x > -5 && x < 0) worst_tail = std::max(worst_tail, error / exact);
  }
  CHECK(worst < 0x1.2p-23);
  CHECK(worst_tail < 4.2e-4);
  CHECK(math::normal_cdf(-1000.0f) == 0);
  CHECK(math::normal_cdf(-kInf) == 0);
  CHECK(math::normal_cdf(kInf) == 1);
  CHECK(math::normal_cdf(0.0f) == 0.5f);
  CHECK(std::isnan(math::normal_cdf(kNaN)));
  CHECK(math::normal_cdf(-8.0) == doctest::Approx(6.220960574271785e-16).epsilon(1e-12));
}

TEST_CASE("sin and cos") {
  const float limit = math::kMaxTrigArgument;
  CHECK(worst_float([](float x) { return math::sin(x); }, [](double x) { return std::sin(x); }, limit) <=
        1.9);
  CHECK(worst_float([](float x) { return math::cos(x); }, [](double x) { return std::cos(x); }, limit) <=
        1.9);
  CHECK(math::sin(0.0f) == 0);
  CHECK(!std::signbit(math::sin(0.0f)));
  CHECK(std::signbit(math::sin(-0.0f)));
  CHECK(math::sin(-2.0f) == -math::sin(2.0f));
  CHECK(math::cos(0.0f) == 1);
  CHECK(std::isnan(math::sin(kNaN)));
  // Near multiples of pi, the error of the range reduction dominates.
  for (int k = 1; k < 300'000; k += 997) {
    const float x = static_cast<float>(k * 3.14159265358979323846);
    CHECK(ulps(math::sin(x), std::sin(static_cast<double>(x))) <= 1.4);
  }
}

TEST_CASE("expm1_bounded is accurate near zero") {
  double worst = 0;
  for (float x = -79; x < 79; x += 0.0137f)
    worst = std::max(worst, ulps(math::expm1_bounded(x), std::expm1(static_cast<double>(x))));
  for (float x = 1e-30f; x < 1; x *= 1.01f)
    worst = std::max(worst, ulps(math::expm1_bounded(x), std::expm1(static_cast<double>(x))));
  CHECK(worst <= 3);
}
