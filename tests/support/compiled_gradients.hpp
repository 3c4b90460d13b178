// Checks of compiled functions by bits.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <tinytorch/acceleration/compiled.hpp>

namespace tinytorch_tests {

inline bool equal_bits(const tinytorch::Tensor& a, const tinytorch::Tensor& b) {
  const tinytorch::Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.dtype() == y.dtype() && x.shape() == y.shape() && std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
}

// The compiled function gives the parameter the gradient of f, in the call that is captured and in replays.
inline void check_gradient(const tinytorch::TensorFunction& f, tinytorch::Tensor parameter,
                           const tinytorch::Tensor& x) {
  tinytorch::CompiledFunction compiled(f, {.strict = true});
  for (int call = 0; call < 4; ++call) {
    parameter.zero_grad();
    f({x})[0].backward();
    const tinytorch::Tensor want = parameter.grad().detach().clone();
    parameter.zero_grad();
    compiled({x})[0].backward();
    CHECK(equal_bits(parameter.grad(), want));
  }
}

}  // namespace tinytorch_tests
