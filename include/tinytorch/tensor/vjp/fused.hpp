// Derivatives of the fused ops: fused too.
//
//   bias_activation      dx = dy f'(x + b),  db = sum over rows of dx
//   linear_activation    dz = dy f'(z), then as linear
//   linear_residual      dresidual = dy, then as linear
//   mlp                  dz = (dy W_down) f'(z), with its column sums; both layers' weights and biases as in
//   linear residual norms       ds = (dy through the norm) + ds from above;  dresidual = ds,  dx = dropout's
//   mask of ds
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/fused.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/vjp/matmul.hpp>
#include <tinytorch/tensor/vjp/norm.hpp>

namespace tinytorch::inline TT_BUILD {

// dy, x, bias -> those wanted of dx, dbias
struct BiasActivationGrad final : Primitive<BiasActivationGrad> {
  static constexpr const char* kName = "bias_activation_grad";
  WantedGrads grads;
  Shapes shapes;
  Activation fn;
  BiasActivationGrad(WantedGrads g, Shapes s, Activation f)
      : grads(std::move(g)), shapes(std::move(s)), fn(f) {}
  Specs infer(const Tensors& in, Loc) const override { return grads.specs(shapes, in[0].dtype()); }
  double flops(const Tensors& in, const Tensors&) const override {
    return 20 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const std::vector<backend::View> to = grads.views(out);
    TT_KERNEL(in[0],
              bias_activation_grad(fn, to[0], to[1], in[0].view_of(), in[1].view_of(), in[2].view_of()));
  }
  bool differentiable() const override { return false; }
};

// dy [M, N], weight [N, F], z [M, F] -> dz [M, F], and dbias [F] where wanted
struct LinearGradActivation final : Primitive<LinearGradActivation> {
  static constexpr const char* kName = "linear_grad_activation";
  Activation fn;
  bool wants_bias;
  LinearGradActivation(Activation f, bool wants) : fn(f), wants_bias(wants) {}
  Specs infer(const Tensors& in, Loc) const override {
    const DType t = in[0].dtype();
    const Spec dz{in[2].shape(), t}, dbias{{in[2].shape()[1]}, t};
    return wants_bias ? Specs{dz, dbias} : Specs{dz};
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    return (2.0 * static_cast<double>(in[0].shape()[1]) + 20) * static_cast<double>(out[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0],
              linear_grad_activation(fn, out[0].view_of(), wants_bias ? out[1].view_of() : backend::View{},
                                     in[0].view_of(), in[1].view_of(), in[2].view_of()));
  }
  bool differentiable() const override { return false; }
};

// dy, ds, sum, mean, rstd, weight -> dx, dresidual, and those wanted of dweight, dbias
struct ResidualNormGrad final : Primitive<ResidualNormGrad> {
  static constexpr const char* kName = "residual_norm_grad";
  WantedGrads grads;  // of weight, bias
  Shapes shapes;
  backend::ResidualNorm parameters;
  ResidualNormGrad(WantedGrads g, Shapes s, backend::ResidualNorm p)
      : grads(std::move(g)), shapes(std::move(s)), parameters(p) {}
  Specs infer(const Tensors& in, Loc) const override {
    const Spec whole{in[2].shape(), in[2].dtype()};
    Specs specs{whole};
    if (parameters.p > 0) specs.push_back(whole);  // else dx and dresidual are one
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

inline Tensors bias_activation(const Tensor& g, const Saved& s, Activation fn) {
  const WantedGrads wanted{s.needs_grad};
  return wanted.spread(
      apply_all(BiasActivationGrad(wanted, s.input_shapes, fn), {g, s.inputs[0], s.inputs[1]}));
}

inline Tensors linear_activation(const Tensors& g, const Saved& s, Activation fn) {
  Tensor dz = g[0];
  if (dz.defined() && fn != Activation::none)
    dz = derivative_times(backend::activation_grad_fn(fn), dz, s.outputs[1]);
  if (g.size() > 1 && g[1].defined())
    dz = dz.defined() ? dz + g[1] : g[1];  // z itself has no users; kept whole all the same
  return linear(dz, s.inputs[0], s.inputs[1], s.needs_grad);
}

inline Tensors linear_residual(const Tensor& g, const Saved& s) {
  Tensors grads = linear(g, s.inputs[0], s.inputs[1], s.needs_grad);
  grads.push_back(g);
  return grads;
}

// Inputs x, w_up, b_up, w_down, b_down; outputs y, h and, where f'(z) cannot be told from h = f(z), z.
inline Tensors mlp(const Tensor& g, const Saved& s, Activation fn) {
  const std::vector<bool>& needs = s.needs_grad;
  const Tensors down = linear(g, s.outputs[1], s.inputs[3], {false, needs[3], needs[4]});
  if (!needs[0] && !needs[1] && !needs[2]) return {Tensor(), Tensor(), Tensor(), down[1], down[2]};
  const Tensors hidden = apply_all(LinearGradActivation(fn, needs[2]), {g, s.inputs[3], s.outputs.back()});
  const Tensors up = linear(hidden[0], s.inputs[0], s.inputs[1], {needs[0], needs[1], false});
  return {up[0], up[1], needs[2] ? hidden[1] : Tensor(), down[1], down[2]};
}

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

#include <tinytorch/tensor/ops/elementwise.hpp>
#include <tinytorch/tensor/ops/matmul.hpp>
#endif
