#include <tinytorch/backend/row_codes.hpp>

#include <doctest/doctest.h>

#include <cmath>

using tinytorch::backend::Float8;
using tinytorch::backend::RowScale;

TEST_CASE("the largest magnitude of a row has the largest code, from the smallest to the largest float") {
  for (int exponent = -149; exponent < 128; ++exponent) {
    const auto largest = static_cast<float>(std::ldexp(1.0, exponent));
    INFO("2^", exponent);
    CHECK(RowScale::of<int8_t>(largest).number(largest) == doctest::Approx(127).epsilon(1e-6));
    CHECK(RowScale::of<Float8>(-largest < 0 ? largest : 0).number(-largest) ==
          doctest::Approx(-448).epsilon(1e-6));
    CHECK(std::abs(RowScale::of<int8_t>(largest).scale * 127.0 - static_cast<double>(largest)) <=
          1e-7 * static_cast<double>(largest) + 127 * 1.5e-45);
  }
}

TEST_CASE("a row of zeros has scale 0, and one that is not finite has scale NaN and numbers 0") {
  CHECK(RowScale::of<int8_t>(0).scale == 0);
  CHECK(RowScale::of<int8_t>(0).number(0) == 0);
  for (const float bad : {INFINITY, NAN}) {
    const RowScale by = RowScale::of<int8_t>(bad);
    CHECK(std::isnan(by.scale));
    for (const float x : {1.0f, -3.0f, bad, -bad}) CHECK(by.number(x) == 0);
  }
}
