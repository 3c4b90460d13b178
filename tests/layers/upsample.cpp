#include <tinytorch/layers/upsample.hpp>

#include <doctest/doctest.h>

#include <tinytorch/layers/conv_transpose.hpp>
#include <tinytorch/layers/instance_norm.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("Upsample repeats the elements of an image") {
  const tt::Tensor x = tt::arange(0, 4, 1, tt::f32).reshape({1, 1, 2, 2});
  const std::vector<float> y = tt::Upsample({.scale_factor = 2})(x).to_vector();
  CHECK(y == std::vector<float>{0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3});
}

TEST_CASE("a stack of layers for images has the sizes of PyTorch, and all its parameters have gradients") {
  tt::manual_seed(9);
  tt::Sequential images(tt::ConvTranspose2d(3, 4, 2, {.stride = 2}), tt::InstanceNorm2d(4, 1e-5, true),
                        tt::Upsample({.scale_factor = 1.5, .mode = tt::Interpolation::bilinear}),
                        tt::AdaptiveMaxPool2d(2, 3));
  const tt::Tensor y = images(tt::randn({2, 3, 4, 4}));
  CHECK(y.shape() == tt::Shape{2, 4, 2, 3});
  tt::sum(tt::square(y)).backward();
  for (const tt::Tensor& p : images.parameters()) CHECK(p.grad().defined());
}
