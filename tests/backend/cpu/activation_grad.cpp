// Backward pass of activations: derivatives times a gradient, which may be broadcast or overwritten.
#include <doctest/doctest.h>

#include <cmath>
#include <tinytorch/backend/cpu/activation_grad.hpp>

using namespace tinytorch;
using namespace tinytorch::backend;

TEST_CASE("dx = dy f'(v), also with broadcast dy and in place") {
  double dy = 2, v[] = {-1.5, 0.25, 3}, dx[3];
  const View out{dx, f64, {3}, {1}}, at{v, f64, {3}, {1}}, same{&dy, f64, {3}, {0}};
  cpu::activation_grad(BinaryFn::tanh_grad, out, same, at);
  for (int i = 0; i < 3; ++i) CHECK(dx[i] == doctest::Approx(2 * (1 - v[i] * v[i])));
  cpu::activation_grad(BinaryFn::leaky_relu_grad, out, same, at, 0.1);
  CHECK(dx[0] == doctest::Approx(0.2));
  CHECK(dx[2] == 2);
  cpu::activation_grad(BinaryFn::silu_grad, out, out, at);
  const double s = 1 / (1 + std::exp(-v[2]));
  CHECK(dx[2] == doctest::Approx(2 * s * (1 + v[2] * (1 - s))));
}

TEST_CASE("is_activation_grad is true for exactly the *_grad functions") {
  CHECK(is_activation_grad(BinaryFn::relu_grad));
  CHECK(is_activation_grad(BinaryFn::gelu_tanh_grad));
  CHECK_FALSE(is_activation_grad(BinaryFn::pow));
}
