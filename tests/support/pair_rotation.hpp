// Rotation of pairs by its definition, in double, and the shapes and angles of its tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <tinytorch/core/shape.hpp>
#include <vector>

namespace test {

struct RotatedShape {
  tinytorch::Shape shape;  // [B, H, T, D]
  int64_t half;
};
// Widths that fit accesses of 16 bytes and others, one pair, a part of each head, tokens without heads.
inline constexpr auto rotated_shapes() {
  return std::vector<RotatedShape>{{{1, 40, 3, 128}, 64}, {{2, 3, 5, 64}, 32}, {{2, 2, 7, 96}, 24},
                                   {{1, 3, 2, 10}, 5},    {{3, 1, 4, 7}, 2},   {{1, 1, 1, 2}, 1},
                                   {{2, 5, 33, 48}, 20},  {{1, 2, 0, 8}, 4},   {{5, 7, 1, 256}, 128}};
}

// [rows, half]: cosines and sines, as floats, of any angles.
inline std::vector<double> some_angles(int64_t rows, int64_t half, bool sine) {
  std::vector<double> out;
  for (int64_t i = 0; i < rows * half; ++i) {
    const double angle = 0.37 * static_cast<double>(i % 1009);
    out.push_back(static_cast<double>(static_cast<float>(sine ? std::sin(angle) : std::cos(angle))));
  }
  return out;
}

// positions: of each token.
inline std::vector<double> rotated(const std::vector<double>& x, const RotatedShape& s,
                                   const std::vector<double>& cos, const std::vector<double>& sin,
                                   const std::vector<double>& positions, bool inverse) {
  std::vector<double> out = x;
  const int64_t T = s.shape[2], D = s.shape[3];
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t d = static_cast<int64_t>(i) % D, t = static_cast<int64_t>(i) / D % T;
    if (d >= 2 * s.half) continue;
    const auto angle =
        static_cast<size_t>(static_cast<int64_t>(positions[static_cast<size_t>(t)]) * s.half + d % s.half);
    const bool first = d < s.half;
    const double other = x[first ? i + static_cast<size_t>(s.half) : i - static_cast<size_t>(s.half)];
    out[i] = x[i] * cos[angle] + (first == inverse ? 1 : -1) * other * sin[angle];
  }
  return out;
}

}  // namespace test
