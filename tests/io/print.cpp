// Printing, compared with PyTorch 2's output for the same values (intended differences are noted).
#include <doctest/doctest.h>

#include <cmath>
#include <tinytorch/io/print.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::to_string;

TEST_CASE("floats share one width and four digits") {
  CHECK(to_string(tt::from_data({1.0f, -2.5f, 1.0f / 3, 4.0f}, {2, 2})) ==
        "tensor([[ 1.0000, -2.5000],\n        [ 0.3333,  4.0000]])");
  CHECK(to_string(tt::from_data({1.0f, 2.0f, 3.0f})) == "tensor([1., 2., 3.])");
  CHECK(to_string(tt::from_data({-1.0f, -0.0f, 0.5f})) == "tensor([-1.0000, -0.0000,  0.5000])");
  CHECK(to_string(tt::full({}, 2.5)) == "tensor(2.5000)");
}

TEST_CASE("scientific notation for a wide range") {
  CHECK(to_string(tt::from_data({1e-8f, 1.0f, 2.5f})) == "tensor([1.0000e-08, 1.0000e+00, 2.5000e+00])");
  CHECK(to_string(tt::from_data({1e10f, 1.0f})) == "tensor([1.0000e+10, 1.0000e+00])");
  CHECK(to_string(tt::from_data({123456789.0f, 1.5f})) == "tensor([1.2346e+08, 1.5000e+00])");
  CHECK(to_string(tt::from_data({1000.5f, 0.5f})) == "tensor([1.0005e+03, 5.0000e-01])");
  CHECK(to_string(tt::from_data({0.00001f, 0.0002f})) == "tensor([1.0000e-05, 2.0000e-04])");
}

// tinytorch aligns the columns; PyTorch does not align -inf.
TEST_CASE("NaN and infinities do not change the format of the others") {
  CHECK(to_string(tt::from_data({1.0f, NAN, INFINITY, -INFINITY})) == "tensor([  1.,  nan,  inf, -inf])");
  CHECK(to_string(tt::from_data({NAN, 0.5f})) == "tensor([   nan, 0.5000])");
}

TEST_CASE("integers and bool") {
  CHECK(to_string(tt::from_data({1, 20, -300, 4}, {2, 2}).to(tt::i64)) ==
        "tensor([[   1,   20],\n        [-300,    4]])");
  CHECK(to_string(tt::full({}, 7, tt::i64)) == "tensor(7)");
  CHECK(to_string(tt::from_data(std::vector<bool>{true, false})) == "tensor([ True, False])");
  CHECK(to_string(tt::full({1}, (int64_t{1} << 62) + 1, tt::i64)) == "tensor([4611686018427387905])");
}

TEST_CASE("dtype and requires_grad are shown, and the shape of an empty tensor") {
  CHECK(to_string(tt::from_data({1.5, 2.0})) == "tensor([1.5000, 2.0000], dtype=f64)");
  CHECK(to_string(tt::full({1}, 3, tt::u8)) == "tensor([3], dtype=u8)");
  CHECK(to_string(tt::full({1}, 0.5, tt::bf16)) == "tensor([0.5000], dtype=bf16)");
  tt::Tensor g = tt::from_data({1.5f});
  CHECK(to_string(g.requires_grad_()) == "tensor([1.5000], requires_grad=True)");
  CHECK(to_string(tt::empty({0})) == "tensor([])");
  CHECK(to_string(tt::empty({2, 0})) == "tensor([], shape=[2, 0])");
  CHECK(to_string(tt::Tensor()) == "tensor(undefined)");
}

TEST_CASE("matrices of rank 3 are separated by a blank line") {
  CHECK(to_string(tt::arange(0, 8).reshape({2, 2, 2})) ==
        "tensor([[[0, 1],\n         [2, 3]],\n\n        [[4, 5],\n         [6, 7]]])");
}

TEST_CASE("long rows wrap at 80 columns") {
  CHECK(to_string(tt::arange(0, 30)) ==
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n        18, 19, "
        "20, 21, 22, "
        "23, 24, 25, 26, 27, 28, 29])");
}

TEST_CASE("more than 1000 elements are summarized") {
  CHECK(to_string(tt::arange(0, 2000)) == "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])");
  CHECK(to_string(tt::arange(0, 3000).reshape({3, 1000})) ==
        "tensor([[   0,    1,    2,  ...,  997,  998,  999],\n        [1000, 1001, 1002,  ..., 1997, 1998, "
        "1999],\n  "
        "      [2000, 2001, 2002,  ..., 2997, 2998, 2999]])");
}

TEST_CASE("options, views and fmt") {
  CHECK(to_string(tt::from_data({0.123456f}), {.precision = 2}) == "tensor([0.12])");
  CHECK(to_string(tt::arange(0, 10), {.threshold = 5, .edge_items = 1}) == "tensor([0,  ..., 9])");
  CHECK(to_string(tt::arange(0, 6).reshape({2, 3}).t()) ==
        "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])");
  CHECK(fmt::format("{}", tt::arange(0, 2)) == "tensor([0, 1])");
}
