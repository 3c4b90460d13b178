// Activations in 8 bits by groups of 32, as the products with blocks of weights round them, in double
// precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace test {

// `either` is the distance of two codes where a value lies so near to the middle between them that a kernel,
// which computes in f32, may choose the other one; elsewhere it is 0.
struct Coded {
  std::vector<double> values, either;
};
inline Coded uncoded(std::vector<double> x) {
  const size_t n = x.size();
  return {std::move(x), std::vector<double>(n)};
}
inline Coded coded_by_groups(const std::vector<double>& x) {
  Coded out = uncoded(std::vector<double>(x.size()));
  for (size_t g = 0; g < x.size(); g += 32) {
    double largest = 0;
    for (size_t i = g; i < g + 32; ++i) largest = std::max(largest, std::abs(x[i]));
    if (largest == 0) continue;
    const double step = largest / 127;
    for (size_t i = g; i < g + 32; ++i) {
      const double code = x[i] / step;
      out.values[i] = std::round(code) * step;
      if (std::abs(code - std::floor(code) - 0.5) < 1e-4) out.either[i] = step;
    }
  }
  return out;
}

}  // namespace test
