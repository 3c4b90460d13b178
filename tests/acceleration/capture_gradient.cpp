// The joint graph of a function and its derivative, and its two parts.
#include <doctest/doctest.h>

#include <tinytorch/acceleration/capture_gradient.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;
}  // namespace

TEST_CASE("the joint graph has both passes, and its parts share the saved values") {
  const Tensor w = tt::randn({3, 3}).requires_grad_();
  Tensor x = tt::randn({2, 3}).requires_grad_();
  const tt::CapturedGradient c = tt::capture_gradient(
      [&](const Tensors& in) {
        return Tensors{tt::tanh(tt::matmul(in[0], w)), in[0].detach()};
      },
      {x});
  CHECK(c.forward_steps == 2);
  CHECK(c.tracked == std::vector<int>{0});
  REQUIRE(c.leaves.size() == 1);
  CHECK(c.leaves[0].impl() == w.impl());
  CHECK(c.gradient_of.size() == 2);
  CHECK(!w.grad().defined());  // set aside
  for (size_t s = 0; s < c.joint.steps.size(); ++s) CHECK(c.joint.steps[s].backward == (s >= 2));

  const tt::SplitGraph parts = tt::split(c, 1);
  CHECK(parts.saved == 1);  // the result of tanh; the product is not needed
  CHECK(parts.forward.outputs.size() == 3);
  CHECK(parts.backward.inputs.size() == 3);  // x, tanh's result, its gradient
  CHECK(parts.backward.outputs.size() == 2);
  CHECK(parts.reads_argument == std::vector<bool>{true});
  CHECK(parts.reads_leaf == std::vector<bool>{true});
}

TEST_CASE("a parameter that is first seen detached is still a leaf") {
  const Tensor w = tt::ones({2}).requires_grad_();
  const tt::CapturedGradient c = tt::capture_gradient(
      [&](const Tensors& in) { return Tensors{in[0] * w.detach() * w}; }, {tt::ones({2})});
  CHECK(c.leaves.size() == 1);
  CHECK(c.gradient_of == std::vector<int>{-1, 1});
}
