// Numbers as operands equal tensors of rank 0.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/tensor/overloads.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;  // as a user's program: no name may become ambiguous
using Values = std::vector<float>;

namespace {

Tensor grid() { return arange(6).to(f32).reshape(2, 3); }  // [[0, 1, 2], [3, 4, 5]]

}  // namespace

TEST_CASE("numbers as operands") {
  const Tensor x = grid(), c = x > 2;
  CHECK(pow(x, 2).to_vector() == Values{0, 1, 4, 9, 16, 25});
  CHECK(pow(2, x).to_vector() == Values{1, 2, 4, 8, 16, 32});
  CHECK(maximum(x, 2.).to_vector() == Values{2, 2, 2, 3, 4, 5});
  CHECK(minimum(1, x).to_vector() == Values{0, 1, 1, 1, 1, 1});
  CHECK(where(c, x, 0.).to_vector() == Values{0, 0, 0, 3, 4, 5});
  CHECK(where(c, 1., x).to_vector() == Values{0, 1, 2, 1, 1, 1});
  CHECK(where(c, 1, 0).dtype() == i64);
  CHECK(where(c, 1., 0.).dtype() == f32);
  CHECK(eq(x, 1).to_vector() == Values{0, 1, 0, 0, 0, 0});
  CHECK(ne(x, 1).to_vector() == Values{1, 0, 1, 1, 1, 1});
  CHECK(lt(x, 2).to_vector() == Values{1, 1, 0, 0, 0, 0});
  CHECK(le(x, 2).to_vector() == Values{1, 1, 1, 0, 0, 0});
  CHECK(gt(x, 4).to_vector() == Values{0, 0, 0, 0, 0, 1});
  CHECK(ge(x, 4).to_vector() == Values{0, 0, 0, 0, 1, 1});
  CHECK(add(x, 1)[0].to_vector() == Values{1, 2, 3});
  CHECK(sub(1, x)[0].to_vector() == Values{1, 0, -1});
  CHECK(mul(x, 0.5)[0].to_vector() == Values{0, 0.5, 1});
  CHECK(div(x, 2)[1].to_vector() == Values{1.5, 2, 2.5});
  test::expect_error("TT-DTYPE-07", "", [&] { maximum(arange(3), 0.5); });
  test::expect_error("TT-TENSOR-01", "", [&] { pow(Tensor(), 2); });
}
