// Masks and lists of positions as an index.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/tensor/ops/indexing.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;  // as a user's program: no name may become ambiguous
using Values = std::vector<float>;
using Integers = std::vector<int64_t>;

namespace {

Tensor grid() { return arange(6).to(f32).reshape(2, 3); }  // [[0, 1, 2], [3, 4, 5]]

}  // namespace

TEST_CASE("masks and positions as an index") {
  Tensor x = grid();
  CHECK(x[x > 1.5].to_vector() == Values{2, 3, 4, 5});
  CHECK(x[x > 100].shape() == Shape{0});
  CHECK(x[from_data({false, true})].to_vector() == Values{3, 4, 5});
  CHECK(x[from_data<int64_t>({1, 0, -1})].shape() == Shape{3, 3});
  CHECK(x[from_data<int64_t>({1, 0, -1})][2].to_vector() == Values{3, 4, 5});
  CHECK(x[zeros({2, 2}, i64)].shape() == Shape{2, 2, 3});
  x[x > 3] = 0;
  CHECK(x.to_vector() == Values{0, 1, 2, 3, 0, 0});
  x[x == 0] = from_data({7.0f, 8.0f, 9.0f});
  CHECK(x.to_vector() == Values{7, 1, 2, 3, 8, 9});
  x[x > 6] -= 6;
  CHECK(x.to_vector() == Values{1, 1, 2, 3, 2, 3});
  x[from_data<int64_t>({-1})] = from_data({4.0f, 5.0f, 6.0f});
  CHECK(x.to_vector() == Values{1, 1, 2, 4, 5, 6});
  x[from_data<int64_t>({0, 0})] = grid();  // the last value counts
  CHECK(x[0].to_vector() == Values{3, 4, 5});
  x[x > 100] = 1;
  x.t()[from_data({true, false, false})] = -1;  // through a view
  CHECK(x.to_vector() == Values{-1, 4, 5, -1, 5, 6});
  auto kept = x[0][from_data({true, true, false})];
  kept += 1;  // a variable is a copy
  CHECK(x[0].to_vector() == Values{-1, 4, 5});
  CHECK(index_put(x, x < 0, zeros({1})).to_vector() == Values{0, 4, 5, 0, 5, 6});
  test::expect_error("TT-RANGE-05", "", [&] { x[from_data<int64_t>({2})]; });
  test::expect_error("TT-SHAPE-13", "", [&] { x[from_data({true, false, true})]; });
  test::expect_error("TT-DTYPE-04", "", [&] { x[from_data({0.5f})]; });
  test::expect_error("TT-SHAPE-02", "", [&] { x[x > 0] = zeros(3); });
  CHECK(masked_select(x, from_data({true, false, false})).to_vector() == Values{-1, -1});
  CHECK(nonzero(x == 5).to_vector<int64_t>() == Integers{0, 2, 1, 1});
  CHECK(nonzero(full({}, 3)).shape() == Shape{1, 0});
  x.masked_fill_(x == 5, 0);
  x.clamp_(0, 4);
  CHECK(x.to_vector() == Values{0, 4, 0, 0, 0, 4});
}
