// expect: (deleted)
#include <tinytorch/tinytorch.hpp>

int main() {
  tinytorch::Tensor x = tinytorch::ones({2, 3}), y = tinytorch::zeros({1, 3});
  x.slice(0, 0, 1) = y;
  return 0;
}
