// Comparison of computed with expected values.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

// Checks that every element is within `tolerance` of its expected value, relative to 1 + its absolute value.
inline void check_values(const std::vector<double>& got, const std::vector<double>& expected,
                         double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("element ", i);
    CHECK(std::abs(got[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])));
  }
}
