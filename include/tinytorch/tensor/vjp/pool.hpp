// Derivatives of pooling: max_pool2d adds the gradient at the saved position, an average distributes it
// evenly.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/pool.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/kept_layout.hpp>

namespace tinytorch::inline TT_BUILD {

// The options of the kernels, which are equal for both sides of an image.
struct SquarePool {
  int64_t kernel = 2, stride = 0, padding = 0;  // stride 0 means stride = kernel
};
inline backend::Window2d pool_window(const SquarePool& o) {
  return {o.kernel, o.kernel, o.stride == 0 ? o.kernel : o.stride, o.padding, 1};
}

// dy, index -> dx
struct MaxPool2dGrad final : Primitive<MaxPool2dGrad> {
  static constexpr const char* kName = "max_pool2d_grad";
  SquarePool options;
  Shape x_shape;
  MaxPool2dGrad(SquarePool o, Shape x) : options(o), x_shape(x) {}
  Specs infer(const Tensors& in, Loc) const override {
    return {{x_shape, in[0].dtype(), -1, follows_channels_last(in[1])}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0],
              max_pool2d_grad(out[0].view_of(), in[0].view_of(), in[1].view_of(), pool_window(options)));
  }
  Save saves() const override { return Save::inputs; }
  bool saves_input(size_t i) const override { return i == 1; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {  // the elements at the saved positions
    const Shape &x = x_shape, &y = s.input_shapes[0];
    const Tensor flat = reshape(g[0], {x[0], x[1], x[2] * x[3]});
    const Tensor at = reshape(s.inputs[1].to(DType::i64), {y[0], y[1], y[2] * y[3]});
    return {reshape(gather(flat, 2, at), y), Tensor()};
  }
};

// dy -> dx
struct AvgPool2dGrad final : Primitive<AvgPool2dGrad> {
  static constexpr const char* kName = "avg_pool2d_grad";
  SquarePool options;
  Shape x_shape;
  AvgPool2dGrad(SquarePool o, Shape x) : options(o), x_shape(x) {}
  Specs infer(const Tensors& in, Loc) const override {
    return {{x_shape, in[0].dtype(), -1, follows_channels_last(in[0])}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return static_cast<double>(in[0].numel() * options.kernel * options.kernel);
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], avg_pool2d_grad(out[0].view_of(), in[0].view_of(), pool_window(options)));
  }
  Tensors vjp(const Saved&, const Tensors& g) const override {
    Pool2dOptions same;
    same.kernel = options.kernel, same.stride = options.stride, same.padding = options.padding;
    return {tinytorch::avg_pool2d(g[0], same)};
  }
};

// dy -> dx
struct AdaptiveAvgPool2dGrad final : Primitive<AdaptiveAvgPool2dGrad> {
  static constexpr const char* kName = "adaptive_avg_pool2d_grad";
  Shape x_shape;
  explicit AdaptiveAvgPool2dGrad(Shape x) : x_shape(x) {}
  Specs infer(const Tensors& in, Loc) const override {
    return {{x_shape, in[0].dtype(), -1, follows_channels_last(in[0])}};
  }
  double flops(const Tensors&, const Tensors& out) const override {
    return static_cast<double>(out[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], adaptive_avg_pool2d_grad(out[0].view_of(), in[0].view_of()));
  }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {tinytorch::adaptive_avg_pool2d(g[0], s.input_shapes[0][2], s.input_shapes[0][3])};
  }
};

namespace vjp {

inline Tensor max_pool2d(const Tensor& g, const Saved& s, const SquarePool& options) {
  return apply(MaxPool2dGrad(options, s.input_shapes[0]), {g, s.outputs[1]});
}
inline Tensor avg_pool2d(const Tensor& g, const Saved& s, const SquarePool& options) {
  return apply(AvgPool2dGrad(options, s.input_shapes[0]), {g});
}
inline Tensor adaptive_avg_pool2d(const Tensor& g, const Saved& s) {
  return apply(AdaptiveAvgPool2dGrad(s.input_shapes[0]), {g});
}

}  // namespace vjp
}  // namespace tinytorch::inline TT_BUILD
#endif
