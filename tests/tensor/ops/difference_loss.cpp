#include <tinytorch/tensor/ops/difference_loss.hpp>

#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;

// PyTorch's values are in tests/tensor/ops/composed_losses.cpp, with those of all other losses.

TEST_CASE("smooth_l1_loss is Huber's loss divided by beta; with a beta near 0 it is l1_loss") {
  tt::Generator generator(3);
  for (const tt::DType dtype : {tt::f64, tt::f32}) {
    const Tensor x = tt::randn({7, 5}, dtype, tt::cpu, generator).to(tt::default_device()),
                 t = tt::randn({5, 7}, dtype, tt::cpu, generator).to(tt::default_device()).t();
    for (const double beta : {0.3, 1.0, 4.0}) {
      const double a = tt::smooth_l1_loss(x, t, beta).item<double>(),
                   b = tt::huber_loss(x, t, beta).item<double>();
      CHECK(a == doctest::Approx(b / beta));
    }
    for (const double beta : {0.0, 1e-300, 1e-35}) {
      CHECK(tt::smooth_l1_loss(x, t, beta).item<double>() == tt::l1_loss(x, t).item<double>());
    }
    CHECK(tt::l1_loss(x, t, tt::Reduction::none).shape() == tt::Shape{7, 5});
  }
}

TEST_CASE("losses of empty tensors: the sum is 0, the mean NaN; shapes and dtypes must be equal") {
  const Tensor none = tt::zeros({0, 3});
  CHECK(tt::huber_loss(none, none, 1, tt::Reduction::sum).item() == 0);
  CHECK(std::isnan(tt::l1_loss(none, none).item()));
  CHECK(tt::smooth_l1_loss(none, none, 1, tt::Reduction::none).shape() == tt::Shape{0, 3});
  test::expect_error("TT-SHAPE-02", "l1_loss", [&] { tt::l1_loss(tt::ones({2}), tt::ones({1, 2})); });
  test::expect_error("TT-DTYPE-03", "huber_loss",
                     [&] { tt::huber_loss(tt::ones({2}), tt::ones({2}, tt::f64)); });
  test::expect_error("TT-RANGE-08", "delta", [&] { tt::huber_loss(tt::ones({2}), tt::ones({2}), 0.0); });
  test::expect_error("TT-RANGE-08", "beta", [&] { tt::smooth_l1_loss(tt::ones({2}), tt::ones({2}), -1.0); });
}
