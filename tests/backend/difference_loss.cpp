#include <tinytorch/backend/difference_loss.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace backend = tinytorch::backend;

TEST_CASE("Huber's loss is quadratic up to delta and linear behind it, and both parts meet with one slope") {
  const backend::HuberDifference<double> huber({.delta = 2, .factor = 3});
  CHECK(huber.value(1.5, 0.5) == 1.5);
  CHECK(huber.value(-3, 2) == 3 * 2 * (5 - 1.0));
  CHECK(huber.value(2, 0) == 6);
  CHECK(huber.slope(1.5, 0.5) == 3);
  CHECK(huber.slope(2, 0) == 6);
  CHECK(huber.slope(100, 0) == 6);
  CHECK(huber.slope(-100, 0) == -6);
  CHECK(std::isnan(huber.value(NAN, 0)));
  CHECK(std::isnan(huber.slope(NAN, 0)));
  CHECK(huber.value(INFINITY, 0) == INFINITY);
}

TEST_CASE("the absolute value has the slope 0 at 0, and NaN stays NaN") {
  const backend::AbsoluteDifference<float> size({});
  CHECK(size.value(1, 3) == 2);
  CHECK(size.slope(1, 3) == -1);
  CHECK(size.slope(3, 1) == 1);
  CHECK(size.slope(3, 3) == 0);
  CHECK(std::isnan(size.value(NAN, 1)));
  CHECK(std::isnan(size.slope(NAN, 1)));
}
