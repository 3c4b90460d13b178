// Data that consists of integers: read back as integers, and hashed to one number.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <tinytorch/tensor/tensor.hpp>
#include <vector>

namespace test {

// One step of FNV-1a (Fowler, Noll and Vo) over 64-bit values.
inline uint64_t fnv1a(uint64_t hash, int64_t value) {
  return (hash ^ static_cast<uint64_t>(value)) * 1099511628211ull;
}

// Multiples of 1 / `steps` as integers; checks that they are exact multiples in [low, high].
inline std::vector<int64_t> whole(const tinytorch::Tensor& t, double steps, int64_t low, int64_t high) {
  std::vector<int64_t> out;
  bool exact = true;
  for (const float v : t.to_vector<float>()) {
    const double step = v * steps;  // NaN would fail the comparison
    out.push_back(static_cast<int64_t>(step));
    exact = exact && step == static_cast<double>(out.back()) && out.back() >= low && out.back() <= high;
  }
  CHECK(exact);
  return out;
}
inline std::vector<int64_t> bytes(const tinytorch::Tensor& features) {
  return whole(features, 32, -128, 127);
}

}  // namespace test
