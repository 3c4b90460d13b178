#include "support/errors.hpp"

#include <cmath>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::expect_error;

TEST_CASE("batch_norm and group_norm of known values") {
  const tt::Tensor x = tt::from_data<double>({1, 10, 3, 30}, {2, 2});
  const tt::Tensor w = tt::from_data<double>({1, 2}), b = tt::from_data<double>({0, 5});
  const tt::Tensors r = tt::batch_norm_train(x, w, b, 0);
  CHECK(r[0].to_vector<double>() == std::vector<double>{-1, 3, 1, 7});
  CHECK(r[1].to_vector<double>() == std::vector<double>{2, 20});
  CHECK(r[2].to_vector<double>() == std::vector<double>{1, 100});
  CHECK(tt::batch_norm_infer(x, r[1], r[2], w, b, 0).to_vector<double>() == r[0].to_vector<double>());
  CHECK(tt::group_norm(x.reshape({1, 4, 1}), 2, {}, {}, 0).to_vector<double>() ==
        std::vector<double>{-1, 1, -1, 1});
}

TEST_CASE("channel norms refuse what does not fit") {
  const tt::Tensor x = tt::zeros({2, 3, 4}), three = tt::zeros({3}), four = tt::zeros({4});
  expect_error("TT-SHAPE-02", "every parameter [C]", [&] { tt::batch_norm_train(x, four, three); });
  expect_error("TT-SHAPE-02", "shape [3]", [&] { tt::batch_norm_infer(x, three, four, three, three); });
  expect_error("TT-SHAPE-04", "unsqueeze(0)", [&] { tt::batch_norm_train(three, three, three); });
  expect_error("TT-SHAPE-10", "empty batch", [&] { tt::batch_norm_train(tt::zeros({0, 3}), three, three); });
  expect_error("TT-SHAPE-02", "2 groups do not divide", [&] { tt::group_norm(x, 2); });
  expect_error("TT-DTYPE-03", "batch_norm_infer",
               [&] { tt::batch_norm_infer(x, three.to(tt::f64), three.to(tt::f64), three, three); });
  expect_error("TT-DTYPE-02", "group_norm", [&] { tt::group_norm(tt::zeros({2, 3}, tt::i64), 3); });
}
