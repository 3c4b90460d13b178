// A small program that tests/packaging/run.py builds in each way of using the library. It checks its own
// results.
#include <cstdio>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

int main() {
  tt::Tensor w = tt::from_data({1.0f, -2.0f, 3.0f}).requires_grad_();
  tt::Tensor loss = tt::matmul(tt::square(w).reshape({1, 3}), tt::ones({3, 1})).sum();
  loss.backward();
  const bool right =
      loss.item<double>() == 14 && w.grad().to_vector<double>() == std::vector<double>{2, -4, 6};
  std::printf("tinytorch %s: %s\n", TINYTORCH_VERSION, right ? "right" : "WRONG");
  return right ? 0 : 1;
}
