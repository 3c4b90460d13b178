// Derivatives of the residual norms in one kernel: ds = (gradient of the norm for dy) + upstream ds,
// dresidual = ds, dx = the dropout mask and scale applied to ds.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/residual_norm.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/vjp/norm.hpp>

namespace tinytorch::inline TT_BUILD {

// dy, ds, sum, mean, rstd, weight -> dresidual, dx if there is dropout, and those needed of dweight, dbias
struct ResidualNormGrad final : RandomPrimitive<ResidualNormGrad> {
  static constexpr const char* kName = "residual_norm_grad";
  WantedGrads grads;  // gradients of weight and bias
  Shapes shapes;
  backend::ResidualNorm parameters;
  ResidualNormGrad(WantedGrads g, Shapes s, backend::ResidualNorm p)
      : grads(std::move(g)), shapes(std::move(s)), parameters(p) {}
  Specs infer(const Tensors& in, Loc) const override {
    const Spec whole{in[2].shape(), in[2].dtype()};
    Specs specs{whole};
    if (parameters.p > 0) specs.push_back(whole);  // otherwise dx and dresidual are the same tensor
    for (const Spec& s : grads.specs(shapes, in[2].dtype())) specs.push_back(s);
    return specs;
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 14 * static_cast<double>(in[2].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const size_t whole = parameters.p > 0 ? 2 : 1;
    const std::vector<backend::View> to =
        grads.views(Tensors(out.begin() + static_cast<long>(whole), out.end()));
    TT_KERNEL(in[2],
              residual_norm_grad(out[whole - 1].view_of(), out[0].view_of(), to[0], to[1], in[0].view_of(),
                                 view_or_none(in[1]), in[2].view_of(), view_or_none(in[3]), in[4].view_of(),
                                 view_or_none(in[5]), parameters));
  }
  bool differentiable() const override { return false; }
};

namespace vjp {

// Inputs x, residual, weight, bias; outputs y, sum, (mean,) rstd.
inline Tensors residual_norm(const Tensors& g, const Saved& s, const backend::ResidualNorm& parameters,
                             bool rms) {
  const Tensor dy = g[0].defined() ? g[0] : zeros_like(s.outputs[1]);
  const WantedGrads wanted{{s.needs_grad[2], s.needs_grad[3]}};
  const Tensors out =
      apply_all(ResidualNormGrad(wanted, {s.input_shapes[2], s.input_shapes[3]}, parameters),
                {dy, g[1], s.outputs[1], rms ? Tensor() : s.outputs[2], s.outputs.back(), s.inputs[2]});
  const size_t whole = parameters.p > 0 ? 2 : 1;
  const Tensors rest = wanted.spread(Tensors(out.begin() + static_cast<long>(whole), out.end()));
  return {out[whole - 1], out[0], rest[0], rest[1]};
}

}  // namespace vjp

}  // namespace tinytorch::inline TT_BUILD
#endif
