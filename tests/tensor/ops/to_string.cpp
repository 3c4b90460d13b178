// to_string and std::cout without fmt; tests/io/print.cpp has the layout.
#include <doctest/doctest.h>

#include <sstream>
#include <tinytorch/tensor/ops/to_string.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;  // as a user's program: no name may become ambiguous

namespace {

Tensor grid() { return arange(6).to(f32).reshape(2, 3); }  // [[0, 1, 2], [3, 4, 5]]

}  // namespace

TEST_CASE("std::cout << x") {
  std::ostringstream out;
  out << grid() << " " << grid().shape();
  CHECK(out.str() == "tensor([[0., 1., 2.],\n        [3., 4., 5.]]) [2, 3]");
  CHECK(to_string(from_data({1.0f, -2.5f})) == "tensor([ 1.0000, -2.5000])");
}
