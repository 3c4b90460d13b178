// Layers that only pass on or rearrange their input.
#include <tinytorch/layers/identity.hpp>
// The header above must compile by itself.

#include <doctest/doctest.h>

#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("layers without parameters rearrange in a Sequential") {
  tt::Sequential net(tt::Identity(), tt::Unflatten(1, {4, 1, -1}), tt::PixelShuffle(2));
  const tt::Tensor x = tt::arange(8).to(tt::f32).reshape(1, 8), y = net(x);
  CHECK(y.shape() == tt::Shape{1, 1, 2, 4});
  CHECK(y.to_vector() == std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(net.parameters().empty());
  CHECK(tt::Identity()(x).storage() == x.storage());
}
