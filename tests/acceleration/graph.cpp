// The text of a graph, and its totals.
#include <doctest/doctest.h>

#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/tensor/ops.hpp>

TEST_CASE("a graph prints one line per value that comes from outside and per step, and counts its work") {
  namespace tt = tinytorch;
  tt::Tensor w = tt::ones({3});
  w.named("w");
  const auto c = tt::capture(
      [&](const tt::Tensors& x) {
        return tt::Tensors{(x[0] * w).reshape({3, 1})};
      },
      {tt::Tensor(tt::ones({3}))});
  CHECK(c.graph.str() ==
        "%0 f32 [3] = input\n%1 f32 [3] = external 'w'\n%2 f32 [3] = mul(%0, %1)\n"
        "%3 f32 [3, 1] = reshape(%2)\nreturn %3\n");
  CHECK(c.graph.kernels() == 1);
  CHECK(c.graph.flops() == 3);
  CHECK(c.graph.bytes_moved() == 36);
}
