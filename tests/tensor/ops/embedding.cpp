#include <support/errors.hpp>

#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::expect_error;

TEST_CASE("embedding selects rows and keeps the shape of the index") {
  const tt::Tensor table = tt::arange(0, 12, 1, tt::f32).reshape({4, 3});
  const tt::Tensor index = tt::from_data<int64_t>({3, 0, 1, 1}, {2, 2});
  const tt::Tensor y = tt::embedding(table, index);
  CHECK(y.shape() == tt::Shape{2, 2, 3});
  CHECK(y.to_vector<double>() == std::vector<double>{9, 10, 11, 0, 1, 2, 3, 4, 5, 3, 4, 5});
}

TEST_CASE("the error for an index outside the table names the index") {
  const tt::Tensor table = tt::zeros({4, 3});
  expect_error("TT-RANGE-05", "index 4 at position [1, 0] is outside [0, 4)", [&] {
    tt::embedding(table, tt::from_data<int64_t>({3, 0, 4, 1}, {2, 2}));
  });
  expect_error("TT-RANGE-05", "index -1 at position [0]",
               [&] { tt::embedding(table, tt::from_data<int64_t>({-1})); });
  expect_error("TT-DTYPE-04", "i64", [&] { tt::embedding(table, tt::zeros({2}, tt::i32)); });
  expect_error("TT-SHAPE-04", "table [V, C]",
               [&] { tt::embedding(tt::zeros({4}), tt::zeros({2}, tt::i64)); });
  expect_error("TT-DTYPE-02", "floating", [&] {
    tt::embedding(tt::zeros({4, 3}, tt::i32), tt::zeros({2}, tt::i64));
  });
}
