// Divisions of two numbers: the smallest integers, zeros, and quotients that round to the next integer.
#include <tinytorch/backend/division.hpp>
// The header above must compile by itself.

#include <doctest/doctest.h>

#include <limits>

using tinytorch::backend::Division;
using tinytorch::backend::division_value;

TEST_CASE_TEMPLATE("divisions of integers have no undefined behaviour", T, int32_t, int64_t) {
  constexpr T kMin = std::numeric_limits<T>::min(), kMax = std::numeric_limits<T>::max();
  CHECK(division_value<Division::floor>(kMin, T(-1)) == kMin);
  CHECK(division_value<Division::remainder>(kMin, T(-1)) == 0);
  CHECK(division_value<Division::fmod>(kMin, T(-1)) == 0);
  CHECK(division_value<Division::floor>(T(5), T(0)) == 0);
  CHECK(division_value<Division::floor>(T(-7), T(2)) == -4);
  CHECK(division_value<Division::remainder>(T(-7), T(2)) == 1);
  CHECK(division_value<Division::fmod>(T(-7), T(2)) == -1);
  CHECK(division_value<Division::remainder>(kMin, kMax) == kMax - 1);
}

TEST_CASE_TEMPLATE("floor_divide does not round up to the next integer", T, float, double) {
  const T below = std::nextafter(T(3), T(0));  // below / 1 is less than 3
  CHECK(division_value<Division::floor>(below, T(1)) == 2);
  // 1 / 0.1 rounds to 10, but 0.1 is more than 1 / 10 in both types.
  CHECK(division_value<Division::floor>(T(1), T(0.1)) == 9);
  CHECK(division_value<Division::floor>(T(6), T(-4)) == -2);
}
