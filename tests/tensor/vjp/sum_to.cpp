// sum_to reverses every broadcast, and returns a tensor that was not broadcast unchanged.
#include <doctest/doctest.h>

#include <tinytorch/tensor/vjp/sum_to.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using Values = std::vector<double>;

TEST_CASE("leading dimensions are removed, dimensions of size 1 are summed and kept") {
  const tt::Tensor x = tt::arange(0, 24, 1, tt::f64).reshape({2, 3, 4});
  CHECK(tt::sum_to(x, {4}).to_vector<double>() == Values{60, 66, 72, 78});
  CHECK(tt::sum_to(x, {}).item<double>() == 276);
  const tt::Tensor rows = tt::sum_to(x, {3, 1});
  CHECK(rows.shape() == tt::Shape{3, 1});
  CHECK(rows.to_vector<double>() == Values{60, 92, 124});
  const tt::Tensor planes = tt::sum_to(x, {2, 1, 4});
  CHECK(planes.shape() == tt::Shape{2, 1, 4});
  CHECK(planes.to_vector<double>() == Values{12, 15, 18, 21, 48, 51, 54, 57});
  CHECK(tt::sum_to(x, {1, 1, 1}).shape() == tt::Shape{1, 1, 1});
}

TEST_CASE("nothing to sum: the tensor itself, or a view with another rank") {
  const tt::Tensor x = tt::ones({1, 3});
  CHECK(tt::sum_to(x, {1, 3}).impl() == x.impl());
  CHECK_FALSE(tt::sum_to(tt::Tensor(), {3}).defined());
  const tt::Tensor y = tt::sum_to(x, {3});
  CHECK(y.shape() == tt::Shape{3});
  CHECK(y.to_vector<double>() == Values{1, 1, 1});
  CHECK(tt::sum_to(tt::ones({0, 3}), {3}).to_vector<double>() == Values{0, 0, 0});
  CHECK(tt::sum_to(tt::ones({0, 3}), {0, 1}).shape() == tt::Shape{0, 1});
}
