// expect: Sequential takes modules by move
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sequential.hpp>

int main() {
  tinytorch::Linear layer(2, 3);
  tinytorch::Sequential net(layer, tinytorch::Linear(3, 1));
  return 0;
}
