// The position-wise networks of a transformer block: [B, T, C] -> [B, T, F] -> [B, T, C], each token alone.
//
//   Mlp      W_down f(W_up x + b) + b             f: GELU, exact or by tanh (GPT-2), ReLU, SiLU
//   SwiGlu   W_down (silu(W_gate x) * W_up x)     a gate in place of f (Llama); Shazeer, "GLU variants", 2020
#pragma once

#include <tinytorch/layers/linear.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

inline Tensor activate(const Tensor& x, Activation fn) {
  switch (fn) {
    case Activation::relu:
      return relu(x);
    case Activation::silu:
      return silu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    default:
      return x;
  }
}

class Mlp : public Module {
 public:
  Mlp(int64_t features, int64_t hidden, Activation activation = Activation::gelu_tanh)
      : fn(activation), up(features, hidden), down(hidden, features) {
    add("up", up), add("down", down);
  }
  // x [B, T, C] -> up, [B, T, F] -> activate(..., fn) -> down, [B, T, C]
  Tensor forward(const Tensor& x) override { return down(activate(up(x), fn)); }

  Activation fn;
  Linear up, down;
};

// Gate and up are one product: W [2F, C], the gate's rows first.
class SwiGlu : public Module {
 public:
  SwiGlu(int64_t features, int64_t hidden_features, bool bias = false)
      : hidden(hidden_features), gate_up(features, 2 * hidden, bias), down(hidden, features, bias) {
    add("gate_up", gate_up), add("down", down);
  }
  // x [B, T, C] -> gate_up, [B, T, 2F]: the first F values of a token are its gate, the others `up`
  //   -> silu(gate) * up, [B, T, F] -> down, [B, T, C]
  Tensor forward(const Tensor& x) override {
    const Tensor both = gate_up(x);
    const Tensor gate = slice(both, -1, 0, hidden), value = slice(both, -1, hidden);
    return down(silu(gate) * value);
  }

  int64_t hidden;  // F
  Linear gate_up, down;
};

}  // namespace tinytorch::inline TT_BUILD
