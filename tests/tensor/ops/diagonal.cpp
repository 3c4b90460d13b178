// diagonal, diag and trace: every offset and pair of dimensions against an element-by-element rule, views,
// dtypes.
#include <tinytorch/tensor/ops/diagonal.hpp>
// The header above must compile by itself.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using Values = std::vector<float>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_CASE("diagonal of any two dimensions and any offset") {
  const Tensor x = tt::arange(2 * 3 * 4).to(tt::f32).reshape(2, 3, 4);
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 3; ++b) {
      if (a == b) continue;
      const int rest = 3 - a - b;
      for (int64_t k = -5; k <= 5; ++k) {
        CAPTURE(a);
        CAPTURE(b);
        CAPTURE(k);
        Values expected;
        for (int64_t r = 0; r < x.size(rest); ++r) {
          for (int64_t i = 0; i < x.size(a); ++i) {
            if (i + k < 0 || i + k >= x.size(b)) continue;
            int64_t at[3];
            at[a] = i, at[b] = i + k, at[rest] = r;
            expected.push_back(static_cast<float>((at[0] * 3 + at[1]) * 4 + at[2]));
          }
        }
        const Tensor y = tt::diagonal(x, k, a, b);
        CHECK(y.rank() == 2);
        CHECK(y.size(0) == x.size(rest));
        CHECK(y.to_vector() == expected);
      }
    }
  }
  CHECK(tt::diagonal(x, 0, -1, -2).shape() == tt::Shape{2, 3});
}

TEST_CASE("the diagonal of a contiguous matrix is a view") {
  const Tensor x = tt::zeros(3, 3);
  x.diagonal().fill_(2);
  CHECK(x.to_vector() == Values{2, 0, 0, 0, 2, 0, 0, 0, 2});
  x.diagonal(1) += 1;
  CHECK(x.to_vector() == Values{2, 1, 0, 0, 2, 1, 0, 0, 2});
  CHECK(x.t().diagonal(-1).to_vector() == Values{1, 1});
}

TEST_CASE("diag makes a matrix of a vector, and trace sums") {
  CHECK(tt::diag(tt::tensor({1, 2}), 1).to_vector<int64_t>() ==
        std::vector<int64_t>{0, 1, 0, 0, 0, 2, 0, 0, 0});
  CHECK(tt::diag(tt::tensor({1, 2}), -1).to_vector<int64_t>() ==
        std::vector<int64_t>{0, 0, 0, 1, 0, 0, 0, 2, 0});
  CHECK(tt::diag(tt::tensor({true, true})).dtype() == tt::boolean);
  CHECK(tt::diag(tt::zeros({0})).shape() == tt::Shape{0, 0});
  CHECK(tt::diag(tt::tensor({1., kInfinity})).to_vector() == Values{1, 0, 0, INFINITY});
  for (const int64_t k : {-2, 0, 3}) {
    const Tensor v = tt::tensor({1., 2., 3.});
    CHECK(tt::diag(tt::diag(v, k), k).to_vector() == v.to_vector());
  }
  CHECK(tt::trace(tt::tensor({{1, 2, 9}, {3, 4, 9}})).item<int64_t>() == 5);
}

TEST_CASE("errors say what fits") {
  const Tensor x = tt::zeros({2, 3, 4});
  test::expect_error("TT-SHAPE-03", "two different dimensions", [&] { tt::diagonal(x, 0, 1, -2); });
  test::expect_error("TT-SHAPE-03", "", [&] { tt::diagonal(tt::zeros({3})); });
  test::expect_error("TT-SHAPE-04", "", [&] { tt::diag(x); });
  test::expect_error("TT-SHAPE-04", "", [&] { tt::trace(x); });
  test::expect_error("TT-TENSOR-01", "", [&] { tt::diag(Tensor()); });
}
