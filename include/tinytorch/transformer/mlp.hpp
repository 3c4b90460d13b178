// The position-wise MLPs of a transformer block, applied to each token: [B, T, C] -> [B, T, F] -> [B, T, C].
//
//   Mlp      W_down f(W_up x + b) + b             f: GELU, exact or by tanh (GPT-2), ReLU, SiLU
//   SwiGlu   W_down (silu(W_gate x) * W_up x)     gated (Llama); Shazeer, "GLU variants", 2020
#pragma once

#include <tinytorch/layers/linear.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

class Mlp : public Module {
 public:
  Mlp(int64_t features, int64_t hidden, Activation activation = Activation::gelu_tanh)
      : fn(activation), up(features, hidden), down(hidden, features) {
    add("up", up), add("down", down);
  }
  // down(f(up(x))) as one fused op.
  Tensor forward(const Tensor& x) override { return mlp(x, up.weight, up.bias, down.weight, down.bias, fn); }

  Activation fn;
  Linear up, down;
};

// Gate and up are one packed matrix W [2F, C], the gate's rows first.
class SwiGlu : public Module {
 public:
  SwiGlu(int64_t features, int64_t hidden_features, bool bias = false)
      : hidden(hidden_features), gate_up(features, 2 * hidden, bias), down(hidden, features, bias) {
    add("gate_up", gate_up), add("down", down);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor both = gate_up(x);       // [B, T, 2F]
    const int64_t F = both.size(-1) / 2;  // pruning may have removed some of `hidden`
    return down(silu(slice(both, -1, 0, F)) * slice(both, -1, F));
  }

  int64_t hidden;  // F, before pruning
  Linear gate_up, down;
};

}  // namespace tinytorch::inline TT_BUILD
