#include <support/errors.hpp>

#include <cmath>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::expect_error;

TEST_CASE("layer_norm and rms_norm of known rows") {
  const tt::Tensor x = tt::from_data<double>({1, 3, 3, 4}, {2, 2});
  const tt::Tensor y = tt::layer_norm(x, tt::from_data<double>({1, 10}), tt::from_data<double>({0, 1}), 0);
  CHECK(y.to_vector<double>() == std::vector<double>{-1, 11, -1, 11});
  const tt::Tensor r = tt::rms_norm(x, {}, 0);
  CHECK(r.to_vector<double>()[3] == doctest::Approx(4 / std::sqrt(12.5)));
  CHECK(tt::layer_norm(tt::zeros({0, 3})).shape() == tt::Shape{0, 3});
}

TEST_CASE("row norms: operands that do not fit are errors") {
  const tt::Tensor x = tt::zeros({2, 3});
  expect_error("TT-SHAPE-02", "parameters of shape [3]", [&] { tt::layer_norm(x, tt::zeros({2})); });
  expect_error("TT-SHAPE-02", "rms_norm", [&] { tt::rms_norm(x, tt::zeros({3, 1})); });
  expect_error("TT-SHAPE-04", "C >= 1", [&] { tt::layer_norm(tt::zeros({2, 0})); });
  expect_error("TT-DTYPE-03", "layer_norm", [&] { tt::layer_norm(x, tt::zeros({3}, tt::f64)); });
  expect_error("TT-DTYPE-02", "floating", [&] { tt::layer_norm(tt::zeros({2, 3}, tt::i32)); });
}
