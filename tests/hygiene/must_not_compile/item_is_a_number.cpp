// expect: (invalid|no matching|static_cast)
#include <string>
#include <tinytorch/tinytorch.hpp>

int main() {
  tinytorch::Tensor x = tinytorch::ones({2});
  return x.item<std::string>() == "1";
}
