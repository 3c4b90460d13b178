// conv1d, and the transposed convolutions conv_transpose1d and conv_transpose2d.
//
// A transposed convolution scatters: each element of x adds its multiple of the filter to the result. That is
// the gradient of conv2d for its input, and its own derivatives are conv2d and the gradient of conv2d for the
// weight, so that all of them run the kernels of conv2d. Names and equations are PyTorch's.
//
// Channels-last images give a channels-last result on the CPU and a row-major one on CUDA, as in conv2d,
// because the CUDA kernels read and write row-major images, so that another layout would cost a copy here and
// another in the next layer.
#pragma once

#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

// x [N, C, L], weight [O, C / groups, K], bias [O] or undefined -> [N, O, L'],
// L' = (L + 2 padding - dilation (K - 1) - 1) / stride + 1
struct Conv1dOptions {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true;  // of a layer, as in Conv2dOptions
};
TT_API Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     Conv1dOptions options = {}, TT_LOC);

struct ConvTransposeOptions {
  int64_t stride = 1, padding = 0;
  int64_t output_padding = 0;  // extra size at the end of each side, below stride
  int64_t groups = 1, dilation = 1;
  bool bias = true;  // of a layer, as in Conv2dOptions
};
// x [N, C, H, W], weight [C, O / groups, KH, KW], bias [O] or undefined -> [N, O, H', W'],
// H' = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1
TT_API Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               ConvTransposeOptions options = {}, TT_LOC);
// x [N, C, L], weight [C, O / groups, K], bias [O] or undefined -> [N, O, L']
TT_API Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               ConvTransposeOptions options = {}, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <string>
#include <tinytorch/tensor/ops/conv.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

// x, weight -> the result without bias
struct ConvTranspose2dOp final : Primitive<ConvTranspose2dOp> {
  static constexpr const char* kName = "conv_transpose2d";
  ConvTransposeOptions options;
  explicit ConvTranspose2dOp(ConvTransposeOptions o) : options(o) {}
  SquareConv conv() const { return {options.stride, options.padding, options.dilation, options.groups}; }
  int64_t outputs(int64_t size, int64_t kernel) const {
    return (size - 1) * options.stride - 2 * options.padding + options.dilation * (kernel - 1) +
           options.output_padding + 1;
  }
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    require_floating(kName, in[0], loc);
    require_rank(kName, in[0], 4, "images [N, C, H, W]", loc);
    require_rank(kName, in[1], 4, "weight [C, O / groups, KH, KW]", loc);
    require_options(loc);
    const Shape &x = in[0].shape(), &w = in[1].shape();
    const bool fits = x[1] == w[0] && x[1] % options.groups == 0 && w[2] > 0 && w[3] > 0;
    if (!fits) {
      fail("TT-SHAPE-02",
           "conv_transpose2d: sizes differ: " + describe_operands(in) + " with groups " +
               std::to_string(options.groups) +
               "\n  rule: x [N, C, H, W], weight [C, O / groups, KH, KW], groups divides C",
           loc);
    }
    const int64_t largest = std::max({x[2], x[3], w[2], w[3]});
    const int64_t H = outputs(x[2], w[2]), W = outputs(x[3], w[3]);
    if (x[2] < 1 || x[3] < 1 || H < 1 || W < 1 || largest > backend::kMaxWindow) {
      fail("TT-SHAPE-20",
           "conv_transpose2d: the result would have " + std::to_string(H) + " x " + std::to_string(W) +
               " elements: " + describe_operands(in) + "\n  hint: lower padding",
           loc);
    }
    return {{{x[0], w[1] * options.groups, H, W}, in[0].dtype(), -1, follows_channels_last(in[0])}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return conv2d_flops(in[0].shape(), in[1].shape());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], conv2d_grad_input(out[0].view_of(), in[0].view_of(), in[1].view_of(),
                                        conv_window(in[1].shape(), conv()), options.groups));
  }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {
        s.needs_grad[0] ? apply(Conv2dOp(conv()), {g[0], s.inputs[1], Tensor()}) : Tensor(),
        s.needs_grad[1] ? apply(Conv2dGradWeight(conv(), s.input_shapes[1]), {s.inputs[0], g[0]}) : Tensor()};
  }

 private:
  void require_options(Loc loc) const {
    const ConvTransposeOptions& o = options;
    const int64_t most = std::max({o.stride, o.padding, o.dilation, o.groups});
    if (o.stride >= 1 && o.padding >= 0 && o.dilation >= 1 && o.groups >= 1 && o.output_padding >= 0 &&
        o.output_padding < o.stride && most <= backend::kMaxWindow)
      return;
    fail("TT-RANGE-08",
         "conv_transpose2d: stride, dilation and groups must be at least 1, padding at least 0, none beyond "
         "2^28, and output_padding from 0 to stride - 1, got stride " +
             std::to_string(o.stride) + ", padding " + std::to_string(o.padding) + ", dilation " +
             std::to_string(o.dilation) + ", groups " + std::to_string(o.groups) + ", output_padding " +
             std::to_string(o.output_padding),
         loc);
  }
};

// y + bias, for y [N, O, ...]
inline Tensor with_channel_bias(const char* op, const Tensor& y, const Tensor& bias, Loc loc) {
  if (!bias.defined()) return y;
  if (bias.shape() != Shape{y.size(1)}) {
    fail("TT-SHAPE-02",
         std::string(op) + ": the bias of " + std::to_string(y.size(1)) + " output channels must be [" +
             std::to_string(y.size(1)) + "], got " + bias.describe(),
         loc);
  }
  Shape column{y.size(1)};
  for (int d = 2; d < y.rank(); ++d) column.push_back(1);
  return add(y, reshape(bias, column, loc), loc);
}

TT_API Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                               ConvTransposeOptions options, Loc loc) {
  const Tensor y = apply(ConvTranspose2dOp(options), {x, weight}, loc);
  return with_channel_bias("conv_transpose2d", y, bias, loc);
}

// A sequence is an image of height 1. Padding would enlarge its height too, so that conv1d pads the sequence
// itself, and conv_transpose1d computes without padding and cuts it off.
TT_API Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv1dOptions options,
                     Loc loc) {
  require_defined("conv1d", loc, x, weight);
  require_rank("conv1d", x, 3, "sequences [N, C, L]", loc);
  require_rank("conv1d", weight, 3, "weight [O, C / groups, K]", loc);
  const int64_t p = options.padding;
  if (p < 0) fail("TT-RANGE-08", "conv1d: padding must be at least 0, got " + std::to_string(p), loc);
  const Tensor padded = p > 0 ? pad(x, {{0, 0}, {0, 0}, {p, p}}, 0, loc) : x;
  const SquareConv square{options.stride, 0, options.dilation, options.groups};
  return squeeze(apply(Conv2dOp(square), {unsqueeze(padded, 2, loc), unsqueeze(weight, 2, loc), bias}, loc),
                 2, loc);
}

TT_API Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                               ConvTransposeOptions options, Loc loc) {
  require_defined("conv_transpose1d", loc, x, weight);
  require_rank("conv_transpose1d", x, 3, "sequences [N, C, L]", loc);
  require_rank("conv_transpose1d", weight, 3, "weight [C, O / groups, K]", loc);
  const int64_t p = options.padding;
  options.padding = 0;
  const Tensor whole =
      select(conv_transpose2d(unsqueeze(x, 2, loc), unsqueeze(weight, 2, loc), {}, options, loc), 2, 0, loc);
  if (p < 0 || 2 * p >= whole.size(2)) {
    fail("TT-RANGE-08",
         "conv_transpose1d: padding must be from 0 to less than half of the " +
             std::to_string(whole.size(2)) + " elements without it, got " + std::to_string(p),
         loc);
  }
  const Tensor y = p > 0 ? slice(whole, 2, p, whole.size(2) - p, 1, loc) : whole;
  return with_channel_bias("conv_transpose1d", y, bias, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
