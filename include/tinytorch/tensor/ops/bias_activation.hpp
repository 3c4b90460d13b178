// bias_activation: f(x + bias) in one pass over memory.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/bias_activation.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/bias_activation.hpp>

namespace tinytorch::inline TT_BUILD {

// FLOPs of one activation per element, the same as in kUnaryRules (elementwise.hpp).
inline double activation_flops(Activation fn) {
  constexpr double kFlops[] = {0, 1, 13, 16, 20};
  return kFlops[static_cast<size_t>(fn)];
}

inline Tensor activated(const Tensor& z, Activation fn) {
  switch (fn) {
    case Activation::relu:
      return relu(z);
    case Activation::silu:
      return silu(z);
    case Activation::gelu:
      return gelu(z);
    case Activation::gelu_tanh:
      return gelu_tanh(z);
    default:
      return z;
  }
}

// x [..., C], bias [C] -> f(x + bias)
struct BiasActivation final : Primitive<BiasActivation> {
  static constexpr const char* kName = "bias_activation";
  Activation fn;
  explicit BiasActivation(Activation f) : fn(f) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    require_floating(kName, in[0], loc);
    if (in[0].rank() == 0 || !(in[1].shape() == Shape{in[0].shape().back()})) {
      fail("TT-SHAPE-02",
           "bias_activation: sizes differ: " + describe_operands(in) + "\n  rule: x [..., C], bias [C]", loc);
    }
    return {{in[0].shape(), in[0].dtype()}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return (1 + activation_flops(fn)) * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], bias_activation(fn, out[0].view_of(), in[0].view_of(), in[1].view_of()));
  }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::bias_activation(g[0], s, fn); }
  Tensors composed(const Tensors& in) const override { return {activated(in[0] + in[1], fn)}; }
};

TT_API Tensor bias_activation(const Tensor& x, const Tensor& bias, Activation fn, Loc loc) {
  return apply(BiasActivation(fn), {x, bias}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
