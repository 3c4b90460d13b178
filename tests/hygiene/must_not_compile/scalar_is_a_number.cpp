// expect: (no match for|invalid operands|could not convert|cannot convert)
#include <string>
#include <tinytorch/tinytorch.hpp>

int main() {
  tinytorch::Tensor x = tinytorch::ones({2}) + std::string("1");
  return 0;
}
