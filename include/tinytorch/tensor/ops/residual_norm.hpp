// residual_layer_norm and residual_rms_norm: dropout, residual sum and normalization in one pass over memory.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/residual_norm.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops/norm.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/residual_norm.hpp>

namespace tinytorch::inline TT_BUILD {

// x, residual, weight, bias -> y, sum, mean, rstd; with rms: y, sum, rstd
struct ResidualNormOp final : RandomPrimitive<ResidualNormOp> {
  static constexpr const char* kName = "residual_layer_norm";
  backend::ResidualNorm parameters;
  bool rms;
  ResidualNormOp(backend::ResidualNorm p, bool is_rms) : parameters(p), rms(is_rms) {}
  const char* name() const override { return rms ? "residual_rms_norm" : kName; }
  Specs infer(const Tensors& in, Loc loc) const override {
    if (!(in[0].shape() == in[1].shape())) {
      fail("TT-SHAPE-02",
           std::string(name()) + ": x and residual must have the same shape: " + describe_operands(in), loc);
    }
    const Shape rows = row_norm_shape_or_fail(name(), {in[0], in[2], in[3]}, loc);
    require_same_dtype(name(), {in[0], in[1]}, loc);
    const Spec whole{in[0].shape(), in[0].dtype()}, statistic{rows, statistics_dtype(in[0].dtype())};
    return rms ? Specs{whole, whole, statistic} : Specs{whole, whole, statistic, statistic};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return ((rms ? 5 : 9) + (parameters.p > 0 ? 1 : 0)) * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0],
              residual_norm(out[0].view_of(), out[1].view_of(), rms ? backend::View{} : out[2].view_of(),
                            out.back().view_of(), in[0].view_of(), in[1].view_of(), view_or_none(in[2]),
                            view_or_none(in[3]), parameters));
  }
  Save saves() const override { return Save::inputs_and_extras; }
  bool saves_input(size_t i) const override {
    return i == 2;
  }  // the weight; the sum, an output, is saved instead of x and residual
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return vjp::residual_norm(g, s, parameters, rms);
  }
};

inline NormalizedSum residual_norm(const Tensors& in, double eps, double p, Generator& generator, bool rms,
                                   Loc loc) {
  if (!(p >= 0 && p <= 1)) {
    fail("TT-RANGE-02", "residual norm: the dropout must be from 0 to 1, got " + std::to_string(p), loc);
  }
  backend::ResidualNorm parameters{eps, p, generator.state().seed, 0};
  if (p > 0) parameters.first_block = generator.reserve((static_cast<uint64_t>(in[0].numel()) + 3) / 4);
  const Tensors out = apply_all(ResidualNormOp(parameters, rms), in, loc);
  return {out[0], out[1]};
}
TT_API NormalizedSum residual_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight,
                                         const Tensor& bias, double eps, double dropout, Generator& generator,
                                         Loc loc) {
  return residual_norm({x, residual, weight, bias}, eps, dropout, generator, false, loc);
}
TT_API NormalizedSum residual_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight,
                                       double eps, double dropout, Generator& generator, Loc loc) {
  return residual_norm({x, residual, weight, Tensor()}, eps, dropout, generator, true, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
