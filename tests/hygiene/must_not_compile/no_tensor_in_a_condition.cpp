// A comparison returns a tensor of booleans. It has no single truth value, so it does not convert to bool.
// expect: (cannot convert|could not convert)
#include <tinytorch/tinytorch.hpp>

bool positive(const tinytorch::Tensor& x) { return x > 0; }
