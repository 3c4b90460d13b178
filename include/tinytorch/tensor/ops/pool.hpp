// Pooling of images [N, C, H, W]: max_pool2d, avg_pool2d, adaptive_avg_pool2d.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/pool.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops/windows.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/pool.hpp>

namespace tinytorch::inline TT_BUILD {

inline void require_images(const char* op, const Tensor& x, Loc loc) {
  require_defined(op, loc, x);
  require_floating(op, x, loc);
  require_rank(op, x, 4, "images [N, C, H, W]", loc);
}

// The shape rule of max_pool2d and avg_pool2d; returns the shape of the result.
inline Shape pooled_shape(const char* op, const Tensor& x, const SquarePool& o, Loc loc) {
  require_floating(op, x, loc);
  require_rank(op, x, 4, "images [N, C, H, W]", loc);
  if (o.kernel < 1 || o.stride < 0 || o.padding < 0 || o.padding > o.kernel / 2 ||
      std::max(o.kernel, o.stride) > backend::kMaxWindow) {
    fail("TT-RANGE-08",
         std::string(op) +
             ": kernel must be at least 1, stride at least 0, neither beyond 2^28, padding from 0 to half "
             "the kernel, "
             "got kernel " +
             std::to_string(o.kernel) + ", stride " + std::to_string(o.stride) + ", padding " +
             std::to_string(o.padding) +
             "\n  hint: with more padding, some windows would contain only padding",
         loc);
  }
  const backend::Window2d w = pool_window(o);
  const int64_t out_h = backend::window_outputs(x.shape()[2], o.kernel, w);
  const int64_t out_w = backend::window_outputs(x.shape()[3], o.kernel, w);
  if (out_h < 1 || out_w < 1) {
    fail("TT-SHAPE-20",
         std::string(op) + ": a window of " + std::to_string(o.kernel) + " x " + std::to_string(o.kernel) +
             " does not fit " + x.describe() + " with padding " + std::to_string(o.padding) +
             "\n  hint: use a smaller kernel or more padding",
         loc);
  }
  return {x.shape()[0], x.shape()[1], out_h, out_w};
}

// x -> maxima, and their positions in the plane (i32) for the derivative
struct MaxPool2dOp final : Primitive<MaxPool2dOp> {
  static constexpr const char* kName = "max_pool2d";
  SquarePool options;
  explicit MaxPool2dOp(SquarePool o) : options(o) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    const Shape shape = pooled_shape(kName, in[0], options, loc);
    if (in[0].shape()[2] * in[0].shape()[3] > std::numeric_limits<int32_t>::max()) {
      fail("TT-SHAPE-20", "max_pool2d: a plane must have less than 2^31 elements, got " + in[0].describe(),
           loc);
    }
    const bool channels_last = follows_channels_last(in[0]);
    return {{shape, in[0].dtype(), -1, channels_last}, {shape, DType::i32, -1, channels_last}};
  }
  double flops(const Tensors&, const Tensors& out) const override {
    const auto side = static_cast<double>(options.kernel);
    return static_cast<double>(out[0].numel()) * side * side;
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], max_pool2d(out[0].view_of(), out[1].view_of(), in[0].view_of(), pool_window(options)));
  }
  bool image_step(backend::ImageStep& s) const override { return s.set_pooling(); }
  Save saves() const override { return Save::extras; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return {vjp::max_pool2d(g[0], s, options)}; }
};

struct AvgPool2dOp final : Primitive<AvgPool2dOp> {
  static constexpr const char* kName = "avg_pool2d";
  SquarePool options;
  explicit AvgPool2dOp(SquarePool o) : options(o) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    return {{pooled_shape(kName, in[0], options, loc), in[0].dtype(), -1, follows_channels_last(in[0])}};
  }
  double flops(const Tensors&, const Tensors& out) const override {
    const auto side = static_cast<double>(options.kernel);
    return static_cast<double>(out[0].numel()) * side * side;
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], avg_pool2d(out[0].view_of(), in[0].view_of(), pool_window(options)));
  }
  bool image_step(backend::ImageStep& s) const override {
    return options.kernel <= 4 && s.set_pooling();  // larger sums are added in double if channels-last
  }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return {vjp::avg_pool2d(g[0], s, options)}; }
};

struct AdaptiveAvgPool2dOp final : Primitive<AdaptiveAvgPool2dOp> {
  static constexpr const char* kName = "adaptive_avg_pool2d";
  int64_t out_h, out_w;
  AdaptiveAvgPool2dOp(int64_t h, int64_t w) : out_h(h), out_w(w) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_floating(kName, in[0], loc);
    require_rank(kName, in[0], 4, "images [N, C, H, W]", loc);
    const Shape& x = in[0].shape();
    if (out_h < 1 || out_w < 1 || x[2] < 1 || x[3] < 1) {
      fail("TT-SHAPE-20",
           "adaptive_avg_pool2d: image and output must be at least 1 x 1, got " + in[0].describe() + " to " +
               std::to_string(out_h) + " x " + std::to_string(out_w),
           loc);
    }
    return {{{x[0], x[1], out_h, out_w}, in[0].dtype(), -1, follows_channels_last(in[0])}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], adaptive_avg_pool2d(out[0].view_of(), in[0].view_of()));
  }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return {vjp::adaptive_avg_pool2d(g[0], s)}; }
};

inline bool is_square(const Pool2dOptions& o) {
  return o.kernel.is_square() && o.stride.is_square() && o.padding.is_square();
}
inline SquarePool square_pool(const Pool2dOptions& o) {
  return {o.kernel.height, o.stride.height, o.padding.height};
}
inline Pool1dOptions height_pool(const Pool2dOptions& o) {
  return {o.kernel.height, o.stride.height, o.padding.height, o.ceil_mode, o.count_include_pad};
}
inline Pool1dOptions width_pool(const Pool2dOptions& o) {
  return {o.kernel.width, o.stride.width, o.padding.width, o.ceil_mode, o.count_include_pad};
}
// Rectangular windows, those of ceil_mode, and means without the padding are pooled along W and then along H
// (ops/windows.hpp).
TT_API Tensor max_pool2d(const Tensor& x, Pool2dOptions o, Loc loc) {
  if (is_square(o) && !o.ceil_mode) return apply(MaxPool2dOp(square_pool(o)), {x}, loc);
  require_images("max_pool2d", x, loc);
  return max_pool_along("max_pool2d", max_pool_along("max_pool2d", x, 3, width_pool(o), loc), 2,
                        height_pool(o), loc);
}
TT_API Tensor avg_pool2d(const Tensor& x, Pool2dOptions o, Loc loc) {
  if (is_square(o) && !o.ceil_mode && (o.count_include_pad || o.padding.height == 0))
    return apply(AvgPool2dOp(square_pool(o)), {x}, loc);
  require_images("avg_pool2d", x, loc);
  return avg_pool_along("avg_pool2d", avg_pool_along("avg_pool2d", x, 3, width_pool(o), loc), 2,
                        height_pool(o), loc);
}
TT_API Tensor adaptive_avg_pool2d(const Tensor& x, int64_t out_h, int64_t out_w, Loc loc) {
  return apply(AdaptiveAvgPool2dOp(out_h, out_w), {x}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
