// Derivative of bias_activation in one kernel: dx = dy f'(x + b), db = the sum of dx over rows.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/bias_activation.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/vjp/norm.hpp>

namespace tinytorch::inline TT_BUILD {

// dy, x, bias -> those needed of dx, dbias
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

namespace vjp {

inline Tensors bias_activation(const Tensor& g, const Saved& s, Activation fn) {
  const WantedGrads wanted{s.needs_grad};
  return wanted.spread(
      apply_all(BiasActivationGrad(wanted, s.input_shapes, fn), {g, s.inputs[0], s.inputs[1]}));
}

}  // namespace vjp

}  // namespace tinytorch::inline TT_BUILD
#endif
