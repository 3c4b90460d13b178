// Fits a line to noisy points by gradient descent.
#include <cstdio>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

int main() {
  tt::Tensor x = tt::linspace(-1, 1, 100);
  tt::Tensor y = 3 * x + 0.5 + 0.1 * tt::randn({100});
  tt::Tensor w = tt::zeros({}).requires_grad_(), b = tt::zeros({}).requires_grad_();

  for (int step = 0; step < 200; ++step) {
    tt::Tensor loss = tt::square(w * x + b - y).mean();
    loss.backward();
    w = (w - 0.1 * w.grad()).detach().requires_grad_();
    b = (b - 0.1 * b.grad()).detach().requires_grad_();
  }
  std::printf("y = %.2f x + %.2f\n", w.item<double>(), b.item<double>());
}
