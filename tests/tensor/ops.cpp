// tensor/ops.hpp alone brings the definitions of every family.
#include <doctest/doctest.h>

#include <tinytorch/tensor/ops.hpp>

namespace tt = tinytorch;

TEST_CASE("one call of each family") {
  const tt::Tensor x = tt::arange(0, 4, 1, tt::f32).reshape({2, 2});       // creation, shape
  CHECK(tt::sum(tt::square(x)).item() == 14);                              // elementwise, reduce
  CHECK(tt::matmul(x, x).to_vector() == std::vector<float>{2, 3, 6, 11});  // matmul
  CHECK(tt::flip(x, {0}).to_vector() == std::vector<float>{2, 3, 0, 1});   // index
}
