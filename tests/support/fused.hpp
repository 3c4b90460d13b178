// Comparison of fused operations with the equivalent compositions.
#pragma once

#include <doctest/doctest.h>

#include <tinytorch/tinytorch.hpp>
#include <vector>

namespace test {

inline tinytorch::Tensor activated(const tinytorch::Tensor& x, tinytorch::Activation fn) {
  switch (fn) {
    case tinytorch::Activation::relu:
      return tinytorch::relu(x);
    case tinytorch::Activation::silu:
      return tinytorch::silu(x);
    case tinytorch::Activation::gelu:
      return tinytorch::gelu(x);
    case tinytorch::Activation::gelu_tanh:
      return tinytorch::gelu_tanh(x);
    default:
      return x;
  }
}
inline constexpr tinytorch::Activation kActivations[] = {
    tinytorch::Activation::none, tinytorch::Activation::relu, tinytorch::Activation::silu,
    tinytorch::Activation::gelu, tinytorch::Activation::gelu_tanh};

// Largest difference, relative to the larger of 1 and the value.
inline double distance(const tinytorch::Tensor& a, const tinytorch::Tensor& b) {
  const std::vector<double> u = a.to_vector<double>(), v = b.to_vector<double>();
  REQUIRE(u.size() == v.size());
  double worst = 0;
  for (size_t i = 0; i < u.size(); ++i)
    worst = std::max(worst, std::abs(u[i] - v[i]) / std::max(1.0, std::abs(v[i])));
  return worst;
}
inline double tolerance(tinytorch::DType t) {
  return 4 * tinytorch::epsilon_of(t == tinytorch::f64 ? tinytorch::f64 : t);
}

inline tinytorch::Tensor random(const tinytorch::Shape& shape, tinytorch::DType t, uint64_t seed) {
  tinytorch::Generator g(seed);
  return tinytorch::randn(shape, t, tinytorch::default_device(), g);
}

}  // namespace test
