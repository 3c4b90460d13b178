// The numbers of backend/kv_format.hpp by their definitions, in double.
#pragma once

#include <bit>
#include <cmath>
#include <vector>

namespace test {

// The normalized Hadamard transform of blocks of the largest power of two that divides the length.
inline std::vector<double> hadamard(const std::vector<double>& x) {
  size_t n = 1;
  while (x.size() % (2 * n) == 0) n *= 2;
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < n; ++j) {
      const double sign = std::popcount((i % n) & j) % 2 == 0 ? 1 : -1;
      y[i] += sign * x[i / n * n + j] / std::sqrt(static_cast<double>(n));
    }
  }
  return y;
}
// The value of a number of 8 bits: 1 bit of sign, 4 of exponent, 3 of fraction.
inline double of_float8(int bits) {
  const int exponent = bits / 8 % 16, fraction = bits % 8;
  if (bits % 128 == 127) return NAN;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return bits >= 128 ? -magnitude : magnitude;
}

// The nearest number of 8 bits, with ties to the even code, by a search of all of them.
inline int nearest_float8(double x) {
  int best = 0;
  for (int bits = 0; bits < 127; ++bits) {
    const double distance = std::abs(of_float8(bits) - std::abs(x)),
                 least = std::abs(of_float8(best) - std::abs(x));
    if (distance < least || (distance == least && bits % 2 == 0)) best = bits;
  }
  return std::signbit(x) ? best + 128 : best;
}

}  // namespace test
