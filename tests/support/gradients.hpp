// Comparison of gradients with finite differences in double precision.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace test {

inline tinytorch::Tensor leaf(const tinytorch::Shape& shape, uint64_t seed) {
  tinytorch::Generator g(seed);
  return tinytorch::randn(shape, tinytorch::f64, tinytorch::default_device(), g).requires_grad_();
}
inline void check_gradients(const std::function<tinytorch::Tensor(const tinytorch::Tensors&)>& f,
                            const tinytorch::Tensors& inputs) {
  const auto result = tinytorch::gradcheck(f, inputs);
  CHECK_MESSAGE(result.passed, result.message);
}

}  // namespace test
