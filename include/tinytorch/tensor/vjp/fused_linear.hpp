// Derivatives of the fused linear operations, with fused kernels.
//
//   linear_activation    dz = dy f'(z), then as linear
//   linear_residual      dresidual = dy, then as linear
//   mlp                  dz = (dy W_down) f'(z) with its column sums db_up; weights and biases as linear
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/matmul.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/vjp/elementwise.hpp>
#include <tinytorch/tensor/vjp/matmul.hpp>

namespace tinytorch::inline TT_BUILD {

// dy [M, N], weight [N, F], z [M, F] -> dz [M, F], and dbias [F] if needed
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

namespace vjp {

inline Tensors linear_activation(const Tensors& g, const Saved& s, Activation fn) {
  Tensor dz = g[0];
  if (dz.defined() && fn != Activation::none)
    dz = derivative_times(backend::activation_grad_fn(fn), dz, s.outputs[1]);
  if (g.size() > 1 && g[1].defined())
    dz = dz.defined() ? dz + g[1] : g[1];  // correct also if z, an extra output, gets a gradient
  return linear(dz, s.inputs[0], s.inputs[1], s.needs_grad);
}

inline Tensors linear_residual(const Tensor& g, const Saved& s) {
  Tensors grads = linear(g, s.inputs[0], s.inputs[1], s.needs_grad);
  grads.push_back(g);
  return grads;
}

// Inputs x, w_up, b_up, w_down, b_down; outputs y, h and, if f'(z) does not follow from h = f(z), z.
inline Tensors mlp(const Tensor& g, const Saved& s, Activation fn) {
  const std::vector<bool>& needs = s.needs_grad;
  const Tensors down = linear(g, s.outputs[1], s.inputs[3], {false, needs[3], needs[4]});
  if (!needs[0] && !needs[1] && !needs[2]) return {Tensor(), Tensor(), Tensor(), down[1], down[2]};
  const Tensors hidden = apply_all(LinearGradActivation(fn, needs[2]), {g, s.inputs[3], s.outputs.back()});
  const Tensors up = linear(hidden[0], s.inputs[0], s.inputs[1], {needs[0], needs[1], false});
  return {up[0], up[1], needs[2] ? hidden[1] : Tensor(), down[1], down[2]};
}

}  // namespace vjp

}  // namespace tinytorch::inline TT_BUILD
#endif
