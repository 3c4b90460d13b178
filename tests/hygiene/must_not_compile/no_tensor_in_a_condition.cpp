// A comparison gives a tensor of booleans: which of its elements would decide?
// expect: (cannot convert|could not convert)
#include <tinytorch/tinytorch.hpp>

bool positive(const tinytorch::Tensor& x) { return x > 0; }
