// Convolution and pooling of volumes [N, C, D, H, W]: conv3d, max_pool3d, avg_pool3d, adaptive_avg_pool3d.
//
//   tt::conv3d(x, weight, bias, {.stride = {1, 2, 2}, .padding = 1})   tt::max_pool3d(x, {.kernel = 2})
//
// They are composed of the operations of images. The depth taps of a convolution become channels: one conv2d
// then adds all products, so that a result is rounded once. That copies x once for each tap along the depth.
// A window is pooled within its planes and then along the depth, which is exact for maxima and means. Names
// and semantics are PyTorch's.
#pragma once

#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

// Three numbers for the sides of a volume; a single number serves all: `.stride = 2`, `.padding = {0, 1, 1}`.
struct Size3d {
  int64_t depth, height, width;
  constexpr Size3d(int64_t side) : depth(side), height(side), width(side) {}
  constexpr Size3d(int64_t d, int64_t h, int64_t w) : depth(d), height(h), width(w) {}
  constexpr Size2d plane() const { return {height, width}; }
};
struct Conv3dOptions {
  Size3d stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;  // of a layer, as in Conv2dOptions
};
// x [N, C, D, H, W], weight [O, C / groups, KD, KH, KW], bias [O] or undefined -> y [N, O, D', H', W'], D' =
// (D + 2 padding - dilation (KD - 1) - 1) / stride + 1. Dtypes are floating. Throws TT-SHAPE-02 for channels
// that do not fit, TT-SHAPE-20 for a weight that is larger than the padded x, and TT-RANGE-08 for options out
// of range.
TT_API Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     Conv3dOptions options = {}, TT_LOC);

struct Pool3dOptions {
  Size3d kernel = 2, stride = 0, padding = 0;  // stride 0 means stride = kernel
  bool ceil_mode = false;  // the last window of a side may reach beyond the volume, by less than a stride
  bool count_include_pad = true;  // avg_pool3d: padding counts as zeros; if false, it does not count
};
// If several maxima are equal, the first in row-major order gets the gradient.
TT_API Tensor max_pool3d(const Tensor& x, Pool3dOptions options = {}, TT_LOC);
TT_API Tensor avg_pool3d(const Tensor& x, Pool3dOptions options = {}, TT_LOC);
// Means of out.depth x out.height x out.width windows that cover x.
TT_API Tensor adaptive_avg_pool3d(const Tensor& x, Size3d out, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <string>
#include <tinytorch/backend/window.hpp>
#include <tinytorch/tensor/ops/index.hpp>
#include <tinytorch/tensor/ops/shape.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

inline void require_conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv3dOptions& o,
                           Loc loc) {
  require_defined("conv3d", loc, x, weight);
  require_rank("conv3d", x, 5, "volumes [N, C, D, H, W]", loc);
  require_rank("conv3d", weight, 5, "a weight [C_out, C_in / groups, KD, KH, KW]", loc);
  const int64_t s = o.stride.depth, p = o.padding.depth, d = o.dilation.depth;
  if (std::min({s, d, o.groups}) < 1 || p < 0 || std::max({s, p, d}) > backend::kMaxWindow) {
    fail("TT-RANGE-08",
         "conv3d: stride, dilation and groups must be at least 1, padding at least 0, and none beyond 2^28, "
         "got "
         "along the depth stride " +
             std::to_string(s) + ", padding " + std::to_string(p) + ", dilation " + std::to_string(d) +
             ", groups " + std::to_string(o.groups),
         loc);
  }
  const Shape &in = x.shape(), &w = weight.shape();
  const bool bias_fits = !bias.defined() || bias.shape() == Shape{w[0]};
  if (in[1] % o.groups != 0 || in[1] / o.groups != w[1] || w[0] % o.groups != 0 || w[2] < 1 || !bias_fits) {
    fail(
        "TT-SHAPE-02",
        "conv3d: sizes differ: " + describe_operands({x, weight, bias}) + " with groups " +
            std::to_string(o.groups) +
            "\n  rule: x [N, C_in, D, H, W], weight [C_out, C_in / groups, KD, KH, KW], bias [C_out], groups "
            "divides both channel counts",
        loc);
  }
  if (d * (w[2] - 1) + 1 > in[2] + 2 * p) {
    fail("TT-SHAPE-20",
         "conv3d: the weight is deeper than x with its padding: " + describe_operands({x, weight}) +
             "\n  hint: use a smaller kernel or more padding",
         loc);
  }
}

TT_API Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv3dOptions o, Loc loc) {
  require_conv3d(x, weight, bias, o, loc);
  const int64_t N = x.shape()[0], C = x.shape()[1], H = x.shape()[3], W = x.shape()[4];
  const int64_t taps = weight.shape()[2], s = o.stride.depth, p = o.padding.depth, gap = o.dilation.depth;
  const int64_t depth = (x.shape()[2] + 2 * p - gap * (taps - 1) - 1) / s + 1;
  Tensor planes = transpose(x, 1, 2, loc);  // [N, D, C, H, W]
  if (p > 0) planes = pad(planes, {{0, 0}, {p, p}, {0, 0}, {0, 0}, {0, 0}}, 0, loc);
  Tensors of_taps;
  for (int64_t k = 0; k < taps; ++k)
    of_taps.push_back(slice(planes, 1, k * gap, k * gap + (depth - 1) * s + 1, s, loc));
  // Channel c * taps + k is channel c at tap k, so that groups stay together and the weight need not move.
  const Tensor image = reshape(stack(of_taps, 3, loc), {N * depth, C * taps, H, W}, loc);
  const Shape& w = weight.shape();
  const Tensor filter = reshape(weight, {w[0], w[1] * taps, w[3], w[4]}, loc);
  const Conv2dOptions flat{o.stride.plane(), o.padding.plane(), o.dilation.plane(), o.groups};
  const Tensor y = conv2d(image, filter, bias, flat, loc);
  const Tensor rows = reshape(y, {N, depth, w[0], y.shape()[2], y.shape()[3]}, loc);
  return contiguous(transpose(rows, 1, 2, loc), loc);
}

// Pools planes [N, C D, H, W] and then the depth of [N, C, D, H' W'], by a function of images.
template <class Pool>
Tensor pooled_volume(const char* op, const Tensor& x, Loc loc, const Pool& pool) {
  require_defined(op, loc, x);
  require_rank(op, x, 5, "volumes [N, C, D, H, W]", loc);
  const int64_t N = x.shape()[0], C = x.shape()[1], D = x.shape()[2];
  const Tensor flat = pool(reshape(x, {N, C * D, x.shape()[3], x.shape()[4]}, loc), true);
  const int64_t h = flat.shape()[2], w = flat.shape()[3];
  const Tensor y = pool(reshape(flat, {N, C, D, h * w}, loc), false);
  return reshape(y, {N, C, y.shape()[2], h, w}, loc);
}
inline Pool2dOptions of_planes(const Pool3dOptions& o, bool planes) {
  if (planes)
    return {o.kernel.plane(), o.stride.plane(), o.padding.plane(), o.ceil_mode, o.count_include_pad};
  return {Size2d(o.kernel.depth, 1), Size2d(o.stride.depth, 1), Size2d(o.padding.depth, 0), o.ceil_mode,
          o.count_include_pad};
}
TT_API Tensor max_pool3d(const Tensor& x, Pool3dOptions o, Loc loc) {
  return pooled_volume("max_pool3d", x, loc, [&](const Tensor& t, bool planes) {
    return max_pool2d(t, of_planes(o, planes), loc);
  });
}
TT_API Tensor avg_pool3d(const Tensor& x, Pool3dOptions o, Loc loc) {
  return pooled_volume("avg_pool3d", x, loc, [&](const Tensor& t, bool planes) {
    return avg_pool2d(t, of_planes(o, planes), loc);
  });
}
TT_API Tensor adaptive_avg_pool3d(const Tensor& x, Size3d out, Loc loc) {
  return pooled_volume("adaptive_avg_pool3d", x, loc, [&](const Tensor& t, bool planes) {
    return planes ? adaptive_avg_pool2d(t, out.height, out.width, loc)
                  : adaptive_avg_pool2d(t, out.depth, out.height * out.width, loc);
  });
}

}  // namespace tinytorch::inline TT_BUILD
#endif
