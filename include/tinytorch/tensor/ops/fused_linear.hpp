// Linear layers fused with the operation that follows: linear_activation, linear_residual and mlp. Each gives
// the same result as a composition of other operations, with fewer passes over memory.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/matmul.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops/bias_activation.hpp>
#include <tinytorch/tensor/ops/matmul.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/fused_linear.hpp>

namespace tinytorch::inline TT_BUILD {

// x [M, K], weight [N, K], bias [N] or undefined -> y = f(z) [M, N] and, only if a derivative is needed,
// z = x weight^T + bias [M, N].
struct LinearActivation final : Primitive<LinearActivation> {
  static constexpr const char* kName = "linear_activation";
  Activation fn;
  bool keeps_z;
  LinearActivation(Activation f, bool keeps) : fn(f), keeps_z(keeps) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    const Specs y = Linear2d().infer(in, loc);
    return keeps_z ? Specs{y[0], y[0]} : y;
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    return (2.0 * static_cast<double>(in[0].shape().back()) + activation_flops(fn)) *
           static_cast<double>(out[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], linear_activation(fn, out[0].view_of(), keeps_z ? out[1].view_of() : backend::View{},
                                        in[0].view_of(), in[1].view_of(), view_or_none(in[2])));
  }
  Save saves() const override { return Save::inputs_and_extras; }
  size_t differentiable_outputs() const override { return 2; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::linear_activation(g, s, fn); }
  Tensors composed(const Tensors& in) const override {
    const Tensor z = linear(in[0], in[1], in[2]);
    return {activated(z, fn), z};
  }
};

// x [M, K], weight [N, K], bias [N] or undefined, residual [M, N] -> residual + x weight^T + bias [M, N]
struct LinearResidual final : Primitive<LinearResidual> {
  static constexpr const char* kName = "linear_residual";
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    return Linear2d().infer(in, loc);
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    return (2.0 * static_cast<double>(in[0].shape().back()) + 1) * static_cast<double>(out[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], linear_residual(out[0].view_of(), in[0].view_of(), in[1].view_of(), view_or_none(in[2]),
                                      in[3].view_of()));
  }
  Save saves() const override { return Save::inputs; }
  bool saves_input(size_t i) const override {
    return i < 2;
  }  // the derivative of the sum does not need the residual
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::linear_residual(g[0], s); }
};

// x [M, K], w_up [F, K], b_up [F] or undefined, w_down [N, F], b_down [N] or undefined -> y [M, N] and, if a
// derivative is needed, h = f(z) [M, F], and z = x w_up^T + b_up [M, F] unless f'(z) follows from h. It is
// one operation, so that f'(z) can be applied in the epilogue of the matrix product that computes the
// gradient of h.
struct MlpOp final : Primitive<MlpOp> {
  static constexpr const char* kName = "mlp";
  Activation fn;
  bool keeps_h;
  MlpOp(Activation f, bool keeps) : fn(f), keeps_h(keeps) {}
  bool keeps_z() const { return keeps_h && fn != Activation::none && fn != Activation::relu; }
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    require_floating(kName, in[0], loc);
    require_rank(kName, in[1], 2, "w_up [F, K]", loc);
    require_rank(kName, in[3], 2, "w_down [N, F]", loc);
    const int64_t M = in[0].shape()[0], K = in[0].shape()[1], F = in[1].shape()[0], N = in[3].shape()[0];
    const bool weights_fit = in[1].shape()[1] == K && in[3].shape()[1] == F;
    if (!weights_fit || (in[2].defined() && !(in[2].shape() == Shape{F})) ||
        (in[4].defined() && !(in[4].shape() == Shape{N}))) {
      fail("TT-SHAPE-02",
           "mlp: sizes differ: " + describe_operands(in) +
               "\n  rule: x [..., K], w_up [F, K], b_up [F], w_down [N, F], b_down [N]",
           loc);
    }
    const Spec y{{M, N}, in[0].dtype()}, hidden{{M, F}, in[0].dtype()};
    return keeps_z() ? Specs{y, hidden, hidden} : keeps_h ? Specs{y, hidden} : Specs{y};
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    const auto K = static_cast<double>(in[0].shape()[1]), F = static_cast<double>(in[1].shape()[0]),
               N = static_cast<double>(out[0].shape()[1]);
    return (2 * K + activation_flops(fn) + 2 * N) * F * static_cast<double>(out[0].shape()[0]);
  }
  void run(const Tensors& in, Tensors& out) const override {
    const Tensor h =
        keeps_h ? out[1] : empty({in[0].shape()[0], in[1].shape()[0]}, in[0].dtype(), in[0].device());
    TT_KERNEL(h, linear_activation(fn, h.view_of(), keeps_z() ? out[2].view_of() : backend::View{},
                                   in[0].view_of(), in[1].view_of(), view_or_none(in[2])));
    TT_KERNEL(h, linear(out[0].view_of(), h.view_of(), in[3].view_of(), view_or_none(in[4])));
  }
  Save saves() const override { return Save::inputs_and_extras; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::mlp(g[0], s, fn); }
  Tensors composed(const Tensors& in) const override {
    return {linear(activated(linear(in[0], in[1], in[2]), fn), in[3], in[4])};
  }
};

TT_API Tensor linear_activation(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation fn,
                                Loc loc) {
  require_defined("linear_activation", loc, x, weight);
  return over_rows("linear_activation", x, loc, [&](const Tensor& rows) {
    const Tensors operands{rows, weight, bias};
    return apply(LinearActivation(fn, records_grad(operands)), operands, loc);
  });
}

TT_API Tensor linear_residual(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              const Tensor& residual, Loc loc) {
  require_defined("linear_residual", loc, x, weight, residual);
  return over_rows("linear_residual", x, loc, [&](const Tensor& rows) {
    require_rank("linear_residual", weight, 2, "a weight [N, K]", loc);
    Shape shape = x.shape();
    shape.back() = weight.shape()[0];
    if (!(residual.shape() == shape)) {
      fail("TT-SHAPE-02",
           "linear_residual: sizes differ: " + describe_operands({x, weight, bias, residual}) +
               "\n  rule: x [..., K], weight [N, K], bias [N], residual [..., N]",
           loc);
    }
    const Tensor of_rows = reshape(residual, {rows.shape()[0], shape.back()}, loc);
    return apply(LinearResidual(), {rows, weight, bias, of_rows}, loc);
  });
}

TT_API Tensor mlp(const Tensor& x, const Tensor& w_up, const Tensor& b_up, const Tensor& w_down,
                  const Tensor& b_down, Activation fn, Loc loc) {
  require_defined("mlp", loc, x, w_up, w_down);
  return over_rows("mlp", x, loc, [&](const Tensor& rows) {
    const Tensors operands{rows, w_up, b_up, w_down, b_down};
    return apply(MlpOp(fn, records_grad(operands)), operands, loc);
  });
}

}  // namespace tinytorch::inline TT_BUILD
#endif
