// Derivatives of conv2d, one primitive each: dx is the transposed convolution of dy with the weights, dW the
// correlation of x with dy, and db the sum of dy over samples and positions.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/conv.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/kept_layout.hpp>

namespace tinytorch::inline TT_BUILD {

// The options of the kernels, which are equal for both sides of an image.
struct SquareConv {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
inline backend::Window2d conv_window(const Shape& weight, const SquareConv& o) {
  return {weight[2], weight[3], o.stride, o.padding, o.dilation};
}

// 2 FLOPs per output element and weight of its filter; the same for conv2d, dx and dW.
inline double conv2d_flops(const Shape& out, const Shape& weight) {
  return 2.0 * static_cast<double>(out.numel()) * static_cast<double>(weight[1] * weight[2] * weight[3]);
}

// conv2d without a bias.
inline Tensor correlate(const Tensor& x, const Tensor& weight, const SquareConv& o) {
  return tinytorch::conv2d(x, weight, {}, {o.stride, o.padding, o.dilation, o.groups});
}
// The gradient of x [shape] or of the weight [shape]; each is linear in both operands, so that the
// derivatives of these primitives are again the convolutions below.
inline Tensor conv2d_grad_input(const Tensor& dy, const Tensor& weight, const Shape& shape,
                                const SquareConv& options);
inline Tensor conv2d_grad_weight(const Tensor& dy, const Tensor& x, const Shape& shape,
                                 const SquareConv& options);

// dy, weight -> dx
struct Conv2dGradInput final : Primitive<Conv2dGradInput> {
  static constexpr const char* kName = "conv2d_grad_input";
  SquareConv options;
  Shape x_shape;
  Conv2dGradInput(SquareConv o, Shape x) : options(o), x_shape(x) {}
  Specs infer(const Tensors& in, Loc) const override {
    return {{x_shape, in[0].dtype(), -1, follows_channels_last(in[0])}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return conv2d_flops(in[0].shape(), in[1].shape());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], conv2d_grad_input(out[0].view_of(), in[0].view_of(), in[1].view_of(),
                                        conv_window(in[1].shape(), options), options.groups));
  }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {s.needs_grad[0] ? correlate(g[0], s.inputs[1], options) : Tensor(),
            s.needs_grad[1] ? conv2d_grad_weight(s.inputs[0], g[0], s.input_shapes[1], options) : Tensor()};
  }
};

// dy, x -> dW
struct Conv2dGradWeight final : Primitive<Conv2dGradWeight> {
  static constexpr const char* kName = "conv2d_grad_weight";
  SquareConv options;
  Shape weight_shape;
  Conv2dGradWeight(SquareConv o, Shape w) : options(o), weight_shape(w) {}
  Specs infer(const Tensors& in, Loc) const override { return {{weight_shape, in[0].dtype()}}; }
  double flops(const Tensors& in, const Tensors&) const override {
    return conv2d_flops(in[0].shape(), weight_shape);
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], conv2d_grad_weight(out[0].view_of(), in[0].view_of(), in[1].view_of(),
                                         conv_window(weight_shape, options), options.groups));
  }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {s.needs_grad[0] ? correlate(s.inputs[1], g[0], options) : Tensor(),
            s.needs_grad[1] ? conv2d_grad_input(s.inputs[0], g[0], s.input_shapes[1], options) : Tensor()};
  }
};

inline Tensor conv2d_grad_input(const Tensor& dy, const Tensor& weight, const Shape& shape,
                                const SquareConv& options) {
  return apply(Conv2dGradInput(options, shape), {dy, weight});
}
inline Tensor conv2d_grad_weight(const Tensor& dy, const Tensor& x, const Shape& shape,
                                 const SquareConv& options) {
  return apply(Conv2dGradWeight(options, shape), {dy, x});
}

namespace vjp {

inline Tensors conv2d(const Tensor& g, const Saved& s, const SquareConv& options) {
  return {s.needs_grad[0] ? apply(Conv2dGradInput(options, s.input_shapes[0]), {g, s.inputs[1]}) : Tensor(),
          s.needs_grad[1] ? apply(Conv2dGradWeight(options, s.input_shapes[1]), {g, s.inputs[0]}) : Tensor(),
          s.needs_grad[2] ? tinytorch::sum(g, {0, 2, 3}) : Tensor()};
}

}  // namespace vjp
}  // namespace tinytorch::inline TT_BUILD
#endif
