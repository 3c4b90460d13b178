// expect: linspace needs the number of points
#include <tinytorch/tinytorch.hpp>

int main() { return static_cast<int>(tinytorch::linspace(0, 1).numel()); }
