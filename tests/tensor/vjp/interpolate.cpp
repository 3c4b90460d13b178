#include <tinytorch/tensor/vjp/interpolate.hpp>

#include <doctest/doctest.h>

#include <support/gradients.hpp>
#include <tinytorch/autograd/grad.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Interpolation, tt::Tensor;

TEST_CASE("gradients of interpolation, larger and smaller, by every mode") {
  for (const tt::Shape& size : {tt::Shape{7, 9}, tt::Shape{2, 3}, tt::Shape{1, 1}}) {
    for (const bool corners : {false, true}) {
      test::check_gradients(
          [&](const tt::Tensors& in) {
            return tt::interpolate(in[0],
                                   {.size = size, .mode = Interpolation::bilinear, .align_corners = corners});
          },
          {test::leaf({2, 2, 4, 5}, 1)});
    }
    test::check_gradients([&](const tt::Tensors& in) { return tt::interpolate(in[0], {.size = size}); },
                          {test::leaf({2, 1, 4, 5}, 2)});
  }
  test::check_gradients(
      [&](const tt::Tensors& in) {
        return tt::interpolate(in[0], {.scale_factor = 2.5, .mode = Interpolation::linear});
      },
      {test::leaf({2, 3, 4}, 3)});
}

TEST_CASE("the gradient is a linear function and can be differentiated again") {
  Tensor x = test::leaf({1, 1, 3, 3}, 4);
  const Tensor y = tt::interpolate(x, {.scale_factor = 2, .mode = Interpolation::bilinear});
  const Tensor g = tt::grad(tt::sum(tt::square(y)), {x}, {.create_graph = true})[0];
  // sum(y^2) = |W x|^2: the second derivative along ones is 2 W^T W 1, and W 1 = 1.
  const Tensor second = tt::grad(tt::sum(g), {x})[0];
  Tensor ones = tt::ones_like(x).detach().requires_grad_();
  tt::sum(tt::square(tt::interpolate(ones, {.scale_factor = 2, .mode = Interpolation::bilinear}))).backward();
  CHECK(tt::max(tt::abs(second - ones.grad())).item<double>() < 1e-12);
}
