// Interpolation of planes by its definition, in double: a matrix of weights [outputs, inputs] of each
// dimension.
#pragma once

#include <cmath>
#include <cstdint>
#include <tinytorch/backend/resampling.hpp>
#include <vector>

namespace test {

using tinytorch::backend::PlaneResampling;
using tinytorch::backend::Resampling;

enum class Sampled : uint8_t { nearest, linear, corners };
inline Resampling resampling(int64_t inputs, int64_t outputs, Sampled how) {
  const auto in = static_cast<double>(inputs), out = static_cast<double>(outputs);
  if (how == Sampled::corners) return {inputs, outputs, outputs > 1 ? (in - 1) / (out - 1) : 0, false, true};
  return {inputs, outputs, in / out, how == Sampled::nearest, how == Sampled::nearest};
}

// Row i has the weights of all inputs in output i.
inline std::vector<std::vector<double>> weights_of(const Resampling& axis, Sampled how) {
  std::vector<std::vector<double>> all;
  for (int64_t i = 0; i < axis.outputs; ++i) {
    const double at = static_cast<double>(i);
    double source = how == Sampled::linear ? (at + 0.5) * axis.step - 0.5 : at * axis.step;
    if (how == Sampled::nearest) source = std::floor(source);
    all.emplace_back(static_cast<size_t>(axis.inputs));
    for (int64_t k = 0; k < axis.inputs; ++k) {
      // Linear interpolation is a sum of hat functions; the first and the last one reach beyond the border.
      const double k_at = static_cast<double>(k);
      const bool outside = (k == 0 && source < 0) || (k + 1 == axis.inputs && source > k_at);
      all.back()[static_cast<size_t>(k)] = outside ? 1 : std::max(0.0, 1 - std::abs(source - k_at));
    }
  }
  return all;
}

// `planes` [N, from.H, from.W] -> [N, to.H, to.W]; transposed: the gradient, from outputs to inputs.
inline std::vector<double> resampled(const std::vector<double>& planes, const PlaneResampling& axes,
                                     Sampled how, bool transposed) {
  const auto rows = weights_of(axes.rows, axes.rows.inputs == axes.rows.outputs ? Sampled::nearest : how),
             columns = weights_of(axes.columns, how);
  const auto H = static_cast<size_t>(axes.rows.inputs), W = static_cast<size_t>(axes.columns.inputs),
             H2 = rows.size(), W2 = columns.size();
  const size_t count = planes.size() / (transposed ? H2 * W2 : H * W);
  std::vector<double> out(count * (transposed ? H * W : H2 * W2));
  for (size_t n = 0; n < count; ++n) {
    for (size_t i = 0; i < H2; ++i) {
      for (size_t h = 0; h < H; ++h) {
        if (rows[i][h] == 0) continue;
        for (size_t j = 0; j < W2; ++j) {
          for (size_t w = 0; w < W; ++w) {
            const size_t small = (n * H + h) * W + w, large = (n * H2 + i) * W2 + j;
            const double weight = rows[i][h] * columns[j][w];
            if (weight != 0) out[transposed ? small : large] += weight * planes[transposed ? large : small];
          }
        }
      }
    }
  }
  return out;
}

// Sizes in, sizes out: larger, smaller, odd ratios, single elements, one row.
struct ResampledSizes {
  int64_t planes, rows, columns, new_rows, new_columns;
};
inline constexpr ResampledSizes kResampledSizes[] = {
    {3, 4, 5, 8, 10}, {2, 7, 9, 3, 4}, {1, 1, 17, 1, 53},    {5, 1, 1, 3, 7},
    {2, 6, 6, 6, 1},  {1, 5, 3, 1, 9}, {2, 33, 31, 64, 100}, {1, 64, 100, 33, 31}};

}  // namespace test
