// The definition of rows of 8-bit codes, in double, for tests of quantize_rows on both backends.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <support/array.hpp>
#include <vector>

namespace test {

// The value of a code: i8 itself, or fp8 e4m3 in the bits of u8.
inline double code_value(DType codes, double code) {
  if (codes == i8) return code;
  const int bits = static_cast<int>(code), magnitude = bits & 127, exponent = magnitude / 8;
  if (magnitude == 127) return NAN;
  const double value = std::ldexp(magnitude % 8 + (exponent > 0 ? 8 : 0), std::max(exponent, 1) - 10);
  return bits & 128 ? -value : value;
}
inline double largest_code(DType codes) { return codes == i8 ? 127 : 448; }

// Checks one row: the scale, and that each code is a nearest one. A number that is closer than `tie` to the
// middle of two codes may have either.
inline void check_code_row(DType codes, const double* code, double scale, const double* x, int64_t K) {
  double largest = 0;
  bool finite = true;
  for (int64_t k = 0; k < K; ++k) {
    finite = finite && std::isfinite(x[k]);
    largest = std::max(largest, std::abs(x[k]));
  }
  int64_t wrong = 0;
  if (!finite || largest == 0) {
    CHECK((finite ? scale == 0 : std::isnan(scale)));
    for (int64_t k = 0; k < K; ++k)
      wrong += code[k] != 0 && !(codes != i8 && finite && code[k] == 128);  // -0
    CHECK(wrong == 0);
    return;
  }
  const double top = largest_code(codes);
  CHECK(std::abs(scale - largest / top) <= 1e-7 * largest + 1.5e-45);
  for (int64_t k = 0; k < K; ++k) {
    const double number = x[k] / largest * top, tie = 1e-6 * std::abs(number);
    const double distance = std::abs(code_value(codes, code[k]) - number);
    bool nearest = true;
    if (codes == i8) {
      nearest = distance <= 0.5 + tie && std::abs(code[k]) <= 127;
    } else {
      for (int c = 0; c < 256; ++c) {
        if (c % 128 != 127) nearest = nearest && distance <= std::abs(code_value(codes, c) - number) + tie;
      }
    }
    wrong += !nearest;
  }
  CHECK(wrong == 0);
}
inline void check_codes(DType codes, const std::vector<double>& code, const std::vector<double>& scale,
                        const std::vector<double>& x, int64_t rows, int64_t K) {
  REQUIRE(code.size() == static_cast<size_t>(rows * K));
  REQUIRE(scale.size() == static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    INFO("row ", r, " of ", rows, ", ", K, " columns, codes of ", std::string(name_of(codes)));
    check_code_row(codes, code.data() + r * K, scale[static_cast<size_t>(r)], x.data() + r * K, K);
  }
}

// Values with rows that need care: zeros, NaN, infinities, tiny and huge numbers, and one large element.
inline std::vector<double> code_rows(uint64_t seed, int64_t rows, int64_t K, DType t) {
  Generator random(seed);
  std::vector<double> x(static_cast<size_t>(rows * K));
  for (int64_t r = 0; r < rows; ++r) {
    const double size = t == f16 ? 1 : std::ldexp(1.0, static_cast<int>(random.uniform(-140, 120)));
    const auto kind = static_cast<int>(random.uniform(0, 10));
    double* const row = x.data() + r * K;
    for (int64_t k = 0; k < K; ++k) row[k] = kind == 0 ? 0 : size * random.uniform(-1, 1);
    if (K == 0) continue;
    double& some = row[static_cast<int64_t>(random.uniform(0, static_cast<double>(K)))];
    if (kind == 1) some = NAN;
    if (kind == 2) some = INFINITY;
    if (kind == 3) some = -INFINITY;
    if (kind == 4) some = 30 * size;
  }
  return x;
}

}  // namespace test
