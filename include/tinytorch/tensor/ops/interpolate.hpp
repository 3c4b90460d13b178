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
#include <tinytorch/backend/cpu/interpolate.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/interpolate.hpp>

namespace tinytorch::inline TT_BUILD {

// x [N, C, H, W] or [N, C, L] -> the sizes of `axes`
struct InterpolateOp final : Primitive<InterpolateOp> {
  static constexpr const char* kName = "interpolate";
  backend::PlaneResampling axes;
  explicit InterpolateOp(const backend::PlaneResampling& a) : axes(a) {}
  Specs infer(const Tensors& in, Loc) const override {
    Shape shape = in[0].shape();
    const int rank = shape.size();
    shape[rank - 1] = axes.columns.outputs;
    if (rank == 4) shape[2] = axes.rows.outputs;
    return {{shape, in[0].dtype()}};
  }
  double flops(const Tensors&, const Tensors& out) const override {
    return (axes.columns.nearest ? 0 : out[0].rank() == 4 ? 6 : 3) * static_cast<double>(out[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], interpolate(out[0].view_of(), in[0].view_of(), axes));
  }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {vjp::interpolate(g[0], axes, s.input_shapes[0])};
  }
};

inline Tensor resample(const Tensor& x, const backend::PlaneResampling& axes) {
  return apply(InterpolateOp(axes), {x});
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

// The resampling of dimension d.
inline backend::Resampling resampling_of(const Tensor& x, int d, const InterpolateOptions& o, Loc loc) {
  const int64_t inputs = x.size(d);
  const int64_t outputs =
      o.size.size() > 0 ? o.size[d - 2]
                        : static_cast<int64_t>(std::floor(static_cast<double>(inputs) * o.scale_factor));
  if (inputs < 1 || outputs < 1) {
    fail("TT-SHAPE-20",
         "interpolate: sizes must be at least 1, got " + x.describe() + " to " + std::to_string(outputs) +
             " in dimension " + std::to_string(d),
         loc);
  }
  const bool nearest = o.mode == Interpolation::nearest, corners = o.align_corners && !nearest;
  double step =
      o.scale_factor > 0 ? 1 / o.scale_factor : static_cast<double>(inputs) / static_cast<double>(outputs);
  if (corners) step = outputs > 1 ? static_cast<double>(inputs - 1) / static_cast<double>(outputs - 1) : 0.0;
  return {inputs, outputs, step, nearest, nearest || corners};
}

TT_API Tensor interpolate(const Tensor& x, const InterpolateOptions& options, Loc loc) {
  require_interpolation(x, options, loc);
  backend::PlaneResampling axes;  // one row, if x has sequences
  if (x.rank() == 4) axes.rows = resampling_of(x, 2, options, loc);
  axes.columns = resampling_of(x, x.rank() - 1, options, loc);
  return apply(InterpolateOp(axes), {x}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
