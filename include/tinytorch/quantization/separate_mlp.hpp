// The MLP of a transformer block as two calls, for layers that one fused op cannot compute, or whose inputs
// an observer shall see.
#pragma once

#include <memory>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/mlp.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::quantization {

// Its children are those of the MLP, which must outlive it.
class SeparateMlp : public Module {
 public:
  explicit SeparateMlp(Mlp& mlp) : mlp_(mlp) { add("up", mlp.up), add("down", mlp.down); }
  Tensor forward(const Tensor& x) override { return mlp_.down(activate(mlp_.up(x))); }
  const Mlp& mlp() const { return mlp_; }

 private:
  Tensor activate(const Tensor& x) const {
    switch (mlp_.fn) {
      case Activation::none:
        return x;
      case Activation::relu:
        return relu(x);
      case Activation::silu:
        return silu(x);
      default:
        return mlp_.fn == Activation::gelu ? gelu(x) : gelu_tanh(x);
    }
  }
  Mlp& mlp_;
};

// Lets the fused MLPs of a tree call their layers, while this object lives or, after stay(), for ever.
class SeparateMlps {
 public:
  explicit SeparateMlps(Module& model) {
    model.for_each_module([&](const std::string&, Module& m) {
      if (auto* const mlp = dynamic_cast<Mlp*>(&m)) mlps_.push_back(mlp);
    });
    for (Mlp* const mlp : mlps_) mlp->replace(std::make_shared<SeparateMlp>(*mlp));
  }
  ~SeparateMlps() {
    for (Mlp* const mlp : mlps_) mlp->replace(nullptr);
  }
  SeparateMlps(const SeparateMlps&) = delete;
  SeparateMlps& operator=(const SeparateMlps&) = delete;
  void stay() { mlps_.clear(); }

 private:
  std::vector<Mlp*> mlps_;
};

// Fused MLPs of the tree become two calls of layers, for ever.
inline void separate_mlps(Module& model) { SeparateMlps(model).stay(); }

}  // namespace tinytorch::inline TT_BUILD::quantization
