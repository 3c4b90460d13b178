// interpolate: images or sequences of another size, by the nearest element or by linear interpolation.
//
//   tt::interpolate(x, {.scale_factor = 2})                                 // nearest
//   tt::interpolate(x, {.size = {64, 48}, .mode = tt::Interpolation::bilinear})
//
// The source of output i is at (i + 0.5) r - 0.5 with r = input / output size, or at i (input - 1) / (output
// - 1) with align_corners, which maps the first and last elements to each other. `nearest` takes the element
// floor(i r). Every dimension is interpolated by itself. Names and semantics are PyTorch's.
#pragma once

#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

enum class Interpolation : uint8_t { nearest, linear, bilinear };  // linear: [N, C, L]; bilinear: images
struct InterpolateOptions {
  Shape size{};             // [H', W'] or [L'], or else:
  double scale_factor = 0;  // a factor of all sizes; the result is rounded down, and r is 1 / scale_factor
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;
};
// x [N, C, H, W] or [N, C, L], floating point
TT_API Tensor interpolate(const Tensor& x, const InterpolateOptions& options, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <cmath>
#include <string>
#include <tinytorch/tensor/rules.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// One dimension: `outputs` elements from those of x; r is the distance of two sources.
inline Tensor interpolate_along(const Tensor& x, int dim, int64_t outputs, double r,
                                const InterpolateOptions& options, Loc loc) {
  const int64_t inputs = x.size(dim);
  const auto count = static_cast<size_t>(outputs);
  std::vector<int64_t> low(count), high(count);
  std::vector<double> fraction(count);
  const bool nearest = options.mode == Interpolation::nearest;
  for (size_t i = 0; i < count; ++i) {
    const auto at = static_cast<double>(i);
    const double source =
        nearest ? at * r : (options.align_corners ? at * r : std::max(0.0, (at + 0.5) * r - 0.5));
    low[i] = std::min(static_cast<int64_t>(source), inputs - 1);
    high[i] = std::min(low[i] + 1, inputs - 1);
    fraction[i] = source - static_cast<double>(low[i]);
  }
  const Tensor a = index_select(x, dim, from_data(low).to(x.device()), loc);
  if (nearest) return a;
  const Tensor b = index_select(x, dim, from_data(high).to(x.device()), loc);
  Shape along{outputs};
  for (int d = dim + 1; d < x.rank(); ++d) along.push_back(1);
  const Tensor t = from_data(fraction).to(x.dtype()).to(x.device()).reshape(along);
  return a + (b - a) * t;
}

inline void require_interpolation(const Tensor& x, const InterpolateOptions& o, Loc loc) {
  require_defined("interpolate", loc, x);
  require_floating("interpolate", x, loc);
  const int side = x.rank() - 2;
  const bool rank = o.mode == Interpolation::nearest ? (side == 1 || side == 2)
                                                     : side == (o.mode == Interpolation::linear ? 1 : 2);
  if (!rank) {
    fail("TT-SHAPE-04",
         "interpolate: expected sequences [N, C, L] for linear and nearest, or images [N, C, H, W] for "
         "bilinear and nearest, got " +
             x.describe(),
         loc);
  }
  const bool by_size = o.size.size() > 0;
  if (by_size == (o.scale_factor != 0) || (by_size && o.size.size() != side) ||
      (!by_size && !(o.scale_factor > 0 && o.scale_factor <= 1e6))) {
    fail("TT-RANGE-08",
         "interpolate: give either size, one number for each dimension after [N, C], or a scale_factor above "
         "0, for " +
             x.describe(),
         loc);
  }
}

TT_API Tensor interpolate(const Tensor& x, const InterpolateOptions& options, Loc loc) {
  require_interpolation(x, options, loc);
  const bool narrow = size_of(x.dtype()) < 4;  // 16-bit numbers are interpolated in f32, as in PyTorch
  Tensor y = narrow && options.mode != Interpolation::nearest ? cast(x, f32, loc) : x;
  for (int d = 2; d < x.rank(); ++d) {
    const int64_t inputs = x.size(d);
    const int64_t outputs =
        options.size.size() > 0
            ? options.size[d - 2]
            : static_cast<int64_t>(std::floor(static_cast<double>(inputs) * options.scale_factor));
    if (inputs < 1 || outputs < 1) {
      fail("TT-SHAPE-20",
           "interpolate: sizes must be at least 1, got " + x.describe() + " to " + std::to_string(outputs) +
               " in dimension " + std::to_string(d),
           loc);
    }
    const bool corners = options.align_corners && options.mode != Interpolation::nearest;
    double r = options.scale_factor > 0 ? 1 / options.scale_factor
                                        : static_cast<double>(inputs) / static_cast<double>(outputs);
    if (corners) r = outputs > 1 ? static_cast<double>(inputs - 1) / static_cast<double>(outputs - 1) : 0.0;
    y = interpolate_along(y, d, outputs, r, options, loc);
  }
  return y.dtype() == x.dtype() ? y : cast(y, x.dtype(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
