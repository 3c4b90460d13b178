#include <tinytorch/backend/float8_e5m2.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <tinytorch/core/random.hpp>

using tinytorch::backend::Float8E5M2;

namespace {

// By the definition of the format: sign, five bits of exponent with bias 15, two of fraction.
double value_of(int code) {
  const int exponent = code >> 2 & 31, fraction = code & 3;
  const double sign = code & 128 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * std::ldexp(fraction + (exponent > 0 ? 4 : 0), std::max(exponent, 1) - 17);
}
int code_of(float x) { return Float8E5M2(x).bits; }

}  // namespace

TEST_CASE("every code has the value of the definition, and comes back") {
  for (int code = 0; code < 256; ++code) {
    Float8E5M2 number;
    number.bits = static_cast<uint8_t>(code);
    const double want = value_of(code), own = static_cast<float>(number);
    CHECK((std::isnan(want) ? std::isnan(own) : own == want));
    if (std::isfinite(want)) CHECK(code_of(static_cast<float>(want)) == code);
  }
}

TEST_CASE("a float becomes the nearest code; larger magnitudes the largest; NaN stays NaN") {
  tinytorch::Generator random(3);
  for (int i = 0; i < 20'000; ++i) {
    const auto x =
        static_cast<float>(std::ldexp(random.uniform(-1, 1), static_cast<int>(random.uniform(-20, 16))));
    const double error = std::abs(value_of(code_of(x)) - static_cast<double>(x));
    bool nearest = true;
    for (int code = 0; code < 256; ++code) {
      const double value = value_of(code);
      if (std::isfinite(value)) nearest = nearest && error <= std::abs(value - static_cast<double>(x));
    }
    CHECK(nearest);
  }
  CHECK(code_of(1.125f) == code_of(1.0f));  // ties go to the even code
  CHECK(code_of(1.375f) == code_of(1.5f));
  CHECK(value_of(code_of(1e9f)) == 57344);
  CHECK(value_of(code_of(-INFINITY)) == -57344);
  CHECK(std::isnan(value_of(code_of(NAN))));
}
