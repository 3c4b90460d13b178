// Positions and spans as an index, and assignment to elements.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/tensor/indexing.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;  // as a user's program: no name may become ambiguous
using Values = std::vector<float>;

namespace {

Tensor grid() { return arange(6).to(f32).reshape(2, 3); }  // [[0, 1, 2], [3, 4, 5]]

}  // namespace

TEST_CASE("writing by index") {
  Tensor x = grid();
  x[0] = 7;
  x[1] = from_data({1.0f, 2.0f, 3.0f});
  CHECK(x.to_vector() == Values{7, 7, 7, 1, 2, 3});
  x[{1, 2}] = 9;
  x[{kWholeRange, Span{0, 2}}] = arange(2).to(f32);
  CHECK(x.to_vector() == Values{0, 1, 7, 0, 1, 9});
  x[0] = x[1];
  CHECK(x.to_vector() == Values{0, 1, 9, 0, 1, 9});
  x.slice(1, 0, 3, 2) = arange(2);  // values are converted to the dtype of x
  CHECK(x.to_vector() == Values{0, 1, 1, 0, 1, 1});
  Tensor y = x;
  y = grid();  // a variable is assigned, not written
  CHECK(x.to_vector() == Values{0, 1, 1, 0, 1, 1});
  test::expect_error("TT-SHAPE-02", "", [&] { x[0] = zeros(4); });
  test::expect_error("TT-RANGE-04", "", [&] { x[9] = 1; });
  CHECK(x[{0, 1}].rank() == 0);
  CHECK(x[{-1, -1}].item() == 1);
  CHECK(x[{Span{0, kEnd, 2}, 0}].shape() == Shape{1});
}
