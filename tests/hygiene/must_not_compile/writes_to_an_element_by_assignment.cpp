// It would change a handle that is gone at once: x[0].copy_(...) writes.
// expect: (deleted)
#include <tinytorch/tinytorch.hpp>

int main() {
  tinytorch::Tensor x = tinytorch::ones({2, 3});
  x[0] = tinytorch::zeros({3});
  return 0;
}
