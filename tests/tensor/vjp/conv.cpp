#include <doctest/doctest.h>

#include <support/few.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("gradients of conv2d" * test::long_on_emulator()) {
  const tt::Conv2dOptions options[] = {
      {},
      {.stride = 2, .padding = 1},
      {.padding = 2, .dilation = 2, .groups = 2},
      {.stride = 2, .padding = 1, .groups = 4},
      {.stride = {1, 2}, .padding = {0, 1}},
      {.stride = {4, 6}, .padding = {2, 1}, .dilation = {1, 3}, .groups = 2}};
  for (const tt::Conv2dOptions& o : options) {
    tt::Generator generator(7);
    tt::Tensor x = tt::randn({2, 4, 5, 7}, tt::f64, tt::default_device(), generator).requires_grad_();
    tt::Tensor w =
        tt::randn({4, 4 / o.groups, 3, 2}, tt::f64, tt::default_device(), generator).requires_grad_();
    tt::Tensor b = tt::randn({4}, tt::f64, tt::default_device(), generator).requires_grad_();
    const auto result =
        tt::gradcheck([&](const tt::Tensors& in) { return tt::conv2d(in[0], in[1], in[2], o); }, {x, w, b});
    CHECK_MESSAGE(result.passed, result.message);
  }
}

TEST_CASE("the gradient of a non-contiguous image has its shape and order" * test::long_on_emulator()) {
  tt::Generator generator(8);
  tt::Tensor x =
      tt::randn({2, 5, 6, 3}, tt::f64, tt::default_device(), generator).requires_grad_();  // [N, H, W, C]
  tt::Tensor w = tt::randn({2, 3, 3, 3}, tt::f64, tt::default_device(), generator).requires_grad_();
  const auto result = tt::gradcheck(
      [&](const tt::Tensors& in) {
        return tt::conv2d(in[0].permute({0, 3, 1, 2}), in[1]);
      },
      {x, w});
  CHECK_MESSAGE(result.passed, result.message);
}
