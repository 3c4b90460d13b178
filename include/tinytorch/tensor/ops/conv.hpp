// conv2d: convolution of images [N, C, H, W] (cross-correlation, as is usual in deep learning).
//
// On the CPU, channels-last images (a permuted view of [N, H, W, C]) are read without a copy, and the result
// has the layout of x; dx has the layout of dy. CUDA gives contiguous results.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <numeric>
#include <string>
#include <tinytorch/backend/cpu/conv.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/conv.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// x [N, C, H, W], weight [M, C / groups, KH, KW], bias [M] or undefined -> [N, M, OH, OW]
struct Conv2dOp final : Primitive<Conv2dOp> {
  static constexpr const char* kName = "conv2d";
  SquareConv options;
  explicit Conv2dOp(SquareConv o) : options(o) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    require_floating(kName, in[0], loc);
    require_rank(kName, in[0], 4, "images [N, C, H, W]", loc);
    require_rank(kName, in[1], 4, "a weight [C_out, C_in / groups, KH, KW]", loc);
    require_options(loc);
    require_channels(in, loc);
    const Shape &x = in[0].shape(), &w = in[1].shape();
    const backend::Window2d window = conv_window(w, options);
    const int64_t out_h = backend::window_outputs(x[2], w[2], window);
    const int64_t out_w = backend::window_outputs(x[3], w[3], window);
    if (out_h < 1 || out_w < 1) {
      fail("TT-SHAPE-20",
           "conv2d: the kernel does not fit: " + describe_operands(in) + " with padding " +
               std::to_string(options.padding) + " and dilation " + std::to_string(options.dilation) +
               "\n  rule: dilation * (kernel - 1) + 1 <= size + 2 * padding\n  hint: raise padding",
           loc);
    }
    return {{{x[0], w[0], out_h, out_w}, in[0].dtype(), -1, follows_channels_last(in[0])}};
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    return conv2d_flops(out[0].shape(), in[1].shape()) +
           (in[2].defined() ? static_cast<double>(out[0].numel()) : 0.0);
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], conv2d(out[0].view_of(), in[0].view_of(), in[1].view_of(), view_or_none(in[2]),
                             conv_window(in[1].shape(), options), options.groups));
  }
  bool image_step(backend::ImageStep& s) const override {
    return s.set_convolution(options.stride, options.padding, options.dilation, options.groups);
  }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::conv2d(g[0], s, options); }

 private:
  void require_options(Loc loc) const {
    const int64_t most = std::max({options.stride, options.padding, options.dilation});
    if (options.stride >= 1 && options.padding >= 0 && options.dilation >= 1 && options.groups >= 1 &&
        most <= backend::kMaxWindow)
      return;
    fail("TT-RANGE-08",
         "conv2d: stride, dilation and groups must be at least 1, padding at least 0, and none beyond 2^28, "
         "got stride " +
             std::to_string(options.stride) + ", padding " + std::to_string(options.padding) + ", dilation " +
             std::to_string(options.dilation) + ", groups " + std::to_string(options.groups),
         loc);
  }
  void require_channels(const Tensors& in, Loc loc) const {
    const Shape &x = in[0].shape(), &w = in[1].shape();
    const int64_t groups = options.groups;
    const bool bias_fits = !in[2].defined() || in[2].shape() == Shape{w[0]};
    if (x[1] % groups == 0 && x[1] / groups == w[1] && w[0] % groups == 0 && w[2] > 0 && w[3] > 0 &&
        bias_fits)
      return;
    fail("TT-SHAPE-02",
         "conv2d: sizes differ: " + describe_operands(in) + " with groups " + std::to_string(groups) +
             "\n  rule: x [N, C_in, H, W], weight [C_out, C_in / groups, KH, KW], bias [C_out], groups "
             "divides both channel counts"
             "\n  hint: this weight reads " +
             std::to_string(is_valid_shape({w[1], groups}) ? w[1] * groups : kMaxElements) +
             " channels, x has " + std::to_string(x[1]),
         loc);
  }
};

// The weight with zeros between its taps: side `dim` is dilated by `factor`.
inline Tensor dilated(const Tensor& weight, int dim, int64_t factor, Loc loc) {
  const int64_t taps = weight.size(dim);
  if (factor == 1 || taps < 2) return weight;
  std::vector<std::pair<int64_t, int64_t>> widths(5, {0, 0});
  widths[static_cast<size_t>(dim) + 1].second = factor - 1;
  Shape shape = weight.shape();
  shape[dim] = taps * factor;
  const Tensor spread = reshape(pad(unsqueeze(weight, dim + 1, loc), widths, 0, loc), shape, loc);
  return slice(spread, dim, 0, (taps - 1) * factor + 1, 1, loc);
}

// conv2d with a stride, padding or dilation that differs between the sides. The kernels compute the greatest
// common stride; the result is sliced.
inline Tensor rectangular_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Conv2dOptions& o, Loc loc) {
  require_rank("conv2d", x, 4, "images [N, C, H, W]", loc);
  require_rank("conv2d", weight, 4, "a weight [C_out, C_in / groups, KH, KW]", loc);
  const Size2d &s = o.stride, &p = o.padding, &d = o.dilation;
  const int64_t most = std::max({s.height, s.width, p.height, p.width, d.height, d.width});
  if (std::min({s.height, s.width, d.height, d.width}) < 1 || std::min(p.height, p.width) < 0 ||
      most > backend::kMaxWindow) {
    const auto pair = [](Size2d v) {
      return "{" + std::to_string(v.height) + ", " + std::to_string(v.width) + "}";
    };
    fail("TT-RANGE-08",
         "conv2d: stride and dilation must be at least 1, padding at least 0, and none beyond 2^28, got "
         "stride " +
             pair(s) + ", padding " + pair(p) + ", dilation " + pair(d),
         loc);
  }
  const int64_t step = std::gcd(s.height, s.width), gap = std::gcd(d.height, d.width);
  const Tensor filter = dilated(dilated(weight, 2, d.height / gap, loc), 3, d.width / gap, loc);
  const bool same = p.is_square();
  const Tensor image = same ? x : pad(x, {{0, 0}, {0, 0}, {p.height, p.height}, {p.width, p.width}}, 0, loc);
  const SquareConv square{step, same ? p.height : 0, gap, o.groups};
  const Tensor y = apply(Conv2dOp(square), {image, filter, bias}, loc);
  if (s.is_square()) return y;
  const Tensor rows = slice(y, 2, 0, kEnd, s.height / step, loc);
  return contiguous(slice(rows, 3, 0, kEnd, s.width / step, loc), loc);
}

TT_API Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv2dOptions o, Loc loc) {
  if (o.stride.is_square() && o.padding.is_square() && o.dilation.is_square()) {
    const SquareConv square{o.stride.height, o.padding.height, o.dilation.height, o.groups};
    return apply(Conv2dOp(square), {x, weight, bias}, loc);
  }
  require_defined("conv2d", loc, x, weight);
  return rectangular_conv2d(x, weight, bias, o, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
