// The umbrella header is enough to define a small model, compute its gradient and take an optimization step.
#include <doctest/doctest.h>

#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("gradient descent fits a line") {
  tt::manual_seed(1);
  const tt::Tensor x = tt::linspace(-1, 1, 32).reshape({32, 1});
  const tt::Tensor y = x * 3 - 0.5;
  tt::Tensor w = tt::zeros({1, 1}), b = tt::zeros({1});
  w.requires_grad_();
  b.requires_grad_();
  for (int step = 0; step < 300; ++step) {
    w.zero_grad();
    b.zero_grad();
    tt::mean(tt::square(tt::linear(x, w, b) - y)).backward();
    const tt::NoGrad guard;
    w.add_(w.grad(), -0.5);
    b.add_(b.grad(), -0.5);
  }
  CHECK(w.item() == doctest::Approx(3).epsilon(1e-4));
  CHECK(b.item() == doctest::Approx(-0.5).epsilon(1e-4));
}
