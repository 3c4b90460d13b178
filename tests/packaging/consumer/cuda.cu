// A CUDA program in one file, which includes the kernels' definitions (cuda_impl.cuh) last. Without a GPU it
// prints an error.
#include <cstdio>
#include <exception>
#include <tinytorch/tinytorch.hpp>

#include <tinytorch/cuda_impl.cuh>

namespace tt = tinytorch;

int main() try {
  tt::Tensor x = tt::from_data({1.0f, -2.0f, 3.0f}).to(tt::cuda);
  const bool right = tt::square(x).to(tt::cpu).to_vector<double>() == std::vector<double>{1, 4, 9};
  std::printf("tinytorch %s: %s\n", TINYTORCH_VERSION, right ? "right" : "WRONG");
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
