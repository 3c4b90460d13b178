// The position-wise networks of a transformer block: [B, T, C] -> [B, T, F] -> [B, T, C], each token alone.
//
//   Mlp      W_down f(W_up x + b) + b             f: GELU, exact or by tanh (GPT-2), ReLU, SiLU
//   SwiGlu   W_down (silu(W_gate x) * W_up x)     a gate in place of f (Llama); Shazeer, "GLU variants", 2020
//
// Task 4.9: Mlp::forward, SwiGlu::forward. The given parts of this header are in
// modules/04_transformer/frame/tinytorch/transformer/mlp.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD {

// x [B, T, C] -> up, [B, T, F] -> activate(..., fn) -> down, [B, T, C]
inline Tensor Mlp::forward(const Tensor& x) { return down(activate(up(x), fn)); }

// x [B, T, C] -> gate_up, [B, T, 2F]: the first F values of a token are its gate, the others `up`
//   -> silu(gate) * up, [B, T, F] -> down, [B, T, C]
inline Tensor SwiGlu::forward(const Tensor& x) {
  const Tensor both = gate_up(x);
  const Tensor gate = slice(both, -1, 0, hidden), value = slice(both, -1, hidden);
  return down(silu(gate) * value);
}

}  // namespace tinytorch::inline TT_BUILD
