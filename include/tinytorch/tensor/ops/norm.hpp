// layer_norm and rms_norm over the last dimension.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/norm.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/norm.hpp>

namespace tinytorch::inline TT_BUILD {

// Throws unless each defined parameter is a vector of C elements. `layout` describes the operands.
inline void require_parameters(const char* op, const Tensors& in, size_t first, int64_t C, const char* layout,
                               Loc loc) {
  for (size_t k = first; k < in.size(); ++k) {
    if (!in[k].defined() || in[k].shape() == Shape{C}) continue;
    fail("TT-SHAPE-02",
         std::string(op) + ": sizes differ: " + describe_operands(in) + "\n  rule: " + layout +
             "\n  hint: this x needs parameters of shape [" + std::to_string(C) + "]",
         loc);
  }
}

// The shape rule of layer_norm and rms_norm; returns the shape of the rows' statistics (x without its last
// dimension).
inline Shape row_norm_shape_or_fail(const char* op, const Tensors& in, Loc loc) {
  require_same_dtype(op, in, loc);
  require_floating(op, in[0], loc);
  if (in[0].rank() == 0 || in[0].shape().back() == 0) {
    fail("TT-SHAPE-04",
         std::string(op) + ": expected [..., C] with C >= 1, got " + in[0].describe() +
             "\n  hint: the mean of no elements is undefined",
         loc);
  }
  require_parameters(op, in, 1, in[0].shape().back(), "x [..., C], weight and bias [C]", loc);
  Shape rows = in[0].shape();
  rows.pop_back();
  return rows;
}

// y w + b; both are optional.
inline Tensor scaled_and_shifted(Tensor y, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) y = y * weight;
  return bias.defined() ? y + bias : y;
}
// (x - mean) / sqrt(var + eps) over `dims`, or x / sqrt(mean of x^2 + eps) unless `centred`, in operations
// that can be differentiated again. Statistics of 16-bit data are f32, as in the kernels.
inline Tensor composed_norm(const Tensor& x, const Dims& dims, double eps, bool centred) {
  const Tensor wide = x.to(statistics_dtype(x.dtype()));
  const Tensor d = centred ? wide - mean(wide, dims, true) : wide;
  return (d * rsqrt(mean(square(d), dims, true) + eps)).to(x.dtype());
}

// x, weight, bias -> y, mean, rstd
struct LayerNormOp final : Primitive<LayerNormOp> {
  static constexpr const char* kName = "layer_norm";
  double eps;
  explicit LayerNormOp(double e) : eps(e) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    const Shape rows = row_norm_shape_or_fail(kName, in, loc);
    const DType wide = statistics_dtype(in[0].dtype());
    return {{in[0].shape(), in[0].dtype()}, {rows, wide}, {rows, wide}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 8 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], layer_norm(out[0].view_of(), out[1].view_of(), out[2].view_of(), in[0].view_of(),
                                 view_or_none(in[1]), view_or_none(in[2]), eps));
  }
  Save saves() const override { return Save::inputs_and_extras; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::layer_norm(g[0], s); }
  Tensors composed(const Tensors& in) const override {
    return {scaled_and_shifted(composed_norm(in[0], {-1}, eps, true), in[1], in[2])};
  }
};

// x, weight -> y, rstd
struct RmsNorm final : Primitive<RmsNorm> {
  static constexpr const char* kName = "rms_norm";
  double eps;
  explicit RmsNorm(double e) : eps(e) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    const Shape rows = row_norm_shape_or_fail(kName, in, loc);
    return {{in[0].shape(), in[0].dtype()}, {rows, statistics_dtype(in[0].dtype())}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 4 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0],
              rms_norm(out[0].view_of(), out[1].view_of(), in[0].view_of(), view_or_none(in[1]), eps));
  }
  Save saves() const override { return Save::inputs_and_extras; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::rms_norm(g[0], s); }
  Tensors composed(const Tensors& in) const override {
    return {scaled_and_shifted(composed_norm(in[0], {-1}, eps, false), in[1], Tensor())};
  }
};

TT_API Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Loc loc) {
  return apply(LayerNormOp(eps), {x, weight, bias}, loc);
}
TT_API Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, Loc loc) {
  return apply(RmsNorm(eps), {x, weight}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
