#include "support/errors.hpp"

#include <cmath>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::expect_error;

TEST_CASE("cross_entropy of known logits") {
  const tt::Tensor x = tt::from_data<double>({0, std::log(3.0), 0, 0}, {2, 2});
  const tt::Tensor target = tt::from_data<int64_t>({1, 0});
  CHECK(tt::cross_entropy(x, target).item<double>() ==
        doctest::Approx((std::log(4.0 / 3) + std::log(2.0)) / 2));
  CHECK(tt::cross_entropy(x, target, {.reduction = tt::Reduction::sum}).item<double>() ==
        doctest::Approx(std::log(8.0 / 3)));
  CHECK(tt::cross_entropy(x, target, {.reduction = tt::Reduction::none}).shape() == tt::Shape{2});
  CHECK(tt::cross_entropy(x, target, {.ignore_index = 1}).item<double>() == doctest::Approx(std::log(2.0)));
}

TEST_CASE("mse_loss and bce_with_logits of known values") {
  const tt::Tensor x = tt::from_data<float>({1, 2, 5}), t = tt::from_data<float>({1, 0, 1});
  CHECK(tt::mse_loss(x, t).item() == doctest::Approx(20.0 / 3));
  CHECK(tt::mse_loss(x, t, tt::Reduction::none).to_vector<double>() == std::vector<double>{0, 4, 16});
  CHECK(tt::bce_with_logits(x, t, tt::Reduction::sum).item<double>() ==
        doctest::Approx(std::log1p(std::exp(-1.0)) + 2 + std::log1p(std::exp(-2.0)) +
                        std::log1p(std::exp(-5.0))));
}

TEST_CASE("losses refuse what does not fit, and name it") {
  const tt::Tensor x = tt::zeros({3, 4}), target = tt::zeros({3}, tt::i64);
  expect_error("TT-SHAPE-04", "logits [N, V]", [&] { tt::cross_entropy(tt::zeros({2, 3, 4}), target); });
  expect_error("TT-SHAPE-02", "hint: flatten", [&] { tt::cross_entropy(x, tt::zeros({4}, tt::i64)); });
  expect_error("TT-DTYPE-04", "i64", [&] { tt::cross_entropy(x, tt::zeros({3})); });
  expect_error("TT-DTYPE-02", "floating", [&] { tt::cross_entropy(tt::zeros({3, 4}, tt::i32), target); });
  expect_error("TT-RANGE-05", "target 4 of sample 2", [&] {
    tt::cross_entropy(x, tt::from_data<int64_t>({0, 3, 4}));
  });
  expect_error("TT-RANGE-05", "target -1 of sample 0", [&] {
    tt::cross_entropy(x, tt::from_data<int64_t>({-1, 3, 0}));
  });
  expect_error("TT-RANGE-08", "label_smoothing",
               [&] { tt::cross_entropy(x, target, {.label_smoothing = 1.5}); });
  expect_error("TT-SHAPE-02", "mse_loss", [&] { tt::mse_loss(x, tt::zeros({3, 1})); });
  expect_error("TT-DTYPE-03", "bce_with_logits", [&] { tt::bce_with_logits(x, tt::zeros({3, 4}, tt::f64)); });
}
