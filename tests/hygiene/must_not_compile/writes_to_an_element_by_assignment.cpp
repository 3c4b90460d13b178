// The assignment would change a temporary handle, not the elements of x; x[0].copy_(...) writes to them.
// expect: (deleted)
#include <tinytorch/tinytorch.hpp>

int main() {
  tinytorch::Tensor x = tinytorch::ones({2, 3});
  x[0] = tinytorch::zeros({3});
  return 0;
}
