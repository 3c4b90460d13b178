// The position-wise networks of a transformer block: [B, T, C] -> [B, T, F] -> [B, T, C], each token alone.
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.9.
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
  inline Tensor forward(const Tensor& x) override;  // task 4.9

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
  inline Tensor forward(const Tensor& x) override;  // task 4.9

  int64_t hidden;  // F
  Linear gate_up, down;
};

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/transformer/mlp.hpp>
