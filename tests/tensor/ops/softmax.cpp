#include <support/errors.hpp>

#include <cmath>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::expect_error;

TEST_CASE("softmax of known rows, any dimension, any rank") {
  const tt::Tensor x = tt::from_data<double>({0, std::log(3.0), 5, 5}, {2, 2});
  CHECK(tt::softmax(x).to_vector<double>()[1] == doctest::Approx(0.75));
  CHECK(tt::softmax(x, 0).to_vector<double>()[0] == doctest::Approx(1 / (1 + std::exp(5.0))));
  CHECK(tt::log_softmax(x, -1).to_vector<double>()[0] == doctest::Approx(std::log(0.25)));
  CHECK(tt::logsumexp(x, {1}).to_vector<double>()[0] == doctest::Approx(std::log(4.0)));
  CHECK(tt::logsumexp(x, {0}, true).shape() == tt::Shape{1, 2});
  CHECK(tt::softmax(tt::full({}, 3.0)).item() == 1.0F);
  CHECK(tt::softmax(tt::zeros({0, 4})).shape() == tt::Shape{0, 4});
  CHECK(tt::softmax(tt::zeros({4, 0})).shape() == tt::Shape{4, 0});
  CHECK(tt::logsumexp(tt::zeros({2, 0}), {1}).to_vector<double>() ==
        std::vector<double>{-INFINITY, -INFINITY});
}

TEST_CASE("softmax: an invalid dimension is an error") {
  expect_error("TT-SHAPE-03", "softmax: dimension 2", [] { tt::softmax(tt::zeros({2, 3}), 2); });
  expect_error("TT-SHAPE-03", "log_softmax: dimension -3", [] { tt::log_softmax(tt::zeros({2, 3}), -3); });
  expect_error("TT-DTYPE-02", "logsumexp", [] { tt::logsumexp(tt::zeros({2}, tt::i64)); });
  expect_error("TT-DTYPE-02", "log_softmax", [] { tt::log_softmax(tt::zeros({2}, tt::i32)); });
}
