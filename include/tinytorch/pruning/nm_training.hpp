// Training with N of each M columns: the forward pass uses the masked weight, and the gradient passes the
// mask ("straight-through"), so that a removed weight can grow and take the place of a kept one.
//
//   train_nm(model, 2, 4);                   // linear layers whose rows are a multiple of 4
//   ... train; masks follow the weights ...
//   finish_nm(model);                        // removed weights become 0: store_sparse(model, "2:4") is exact
//
// With the plain estimator masks change to the end of training. SR-STE adds decay times the removed weights
// to the gradient, which keeps them small: fewer masks flip and the result is better. Source: Zhou et al.,
// "Learning N:M fine-grained structured sparse neural networks from scratch", 2021.
#pragma once

#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/pruning/nm.hpp>
#include <tinytorch/quantization/separate_mlp.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

// w [..., K] -> w where its N:M mask is true, else 0. Derivative: g, plus decay w where the mask is false.
struct NmStraightThrough final : Primitive<NmStraightThrough> {
  static constexpr const char* kName = "nm_straight_through";
  int64_t N, M;
  double decay;
  NmStraightThrough(int64_t n, int64_t m, double decay_of_removed) : N(n), M(m), decay(decay_of_removed) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    require_floating(kName, in[0], loc);
    require_groups(kName, in[0], N, M, loc);
    return {{in[0].shape(), in[0].dtype()}};
  }
  // Comparisons are not counted.
  double flops(const Tensors&, const Tensors&) const override { return 0; }
  void run(const Tensors& in, Tensors& out) const override {
    const Tensor w = in[0].detach();
    out[0] = masked(w, nm_mask(w, N, M)).contiguous();
  }
  Save saves() const override { return decay == 0 ? Save::nothing : Save::inputs; }
  Tensors vjp(const Saved& saved, const Tensors& grads) const override {
    if (decay == 0) return {grads[0]};
    const Tensor& w = saved.inputs[0];
    return {grads[0] + (w - masked(w, nm_mask(w, N, M))) * decay};
  }
};

// Throws TT-PRUNE-01 unless 1 <= N <= M and the last dimension of w is a multiple of M.
inline Tensor nm_straight_through(const Tensor& w, int64_t N, int64_t M, double decay = 0, TT_LOC) {
  require_defined("nm_straight_through", loc, w);
  return apply(NmStraightThrough(N, M, decay), {w}, loc);
}

// Computes with the masked weight of a linear layer, and trains the layer's own tensors.
class NmLinear : public Module {
 public:
  NmLinear(Linear& base, int64_t kept, int64_t of, double decay_of_removed)
      : N(kept), M(of), decay(decay_of_removed), base_(base) {
    weight = add_parameter("weight", base.weight);
    if (base.bias.defined()) bias = add_parameter("bias", base.bias);
  }
  Tensor forward(const Tensor& x) override {
    return linear(x, nm_straight_through(weight, N, M, decay), bias);
  }
  Linear& base() const { return base_; }

  int64_t N, M;
  double decay;
  Tensor weight, bias;

 private:
  Linear& base_;  // which owns this module by replace(), and keeps its place in memory
};

// Puts NmLinear in the place of the linear layers whose rows are a multiple of M; the head of a language
// model ("head") stays. The parameters stay the same tensors under the same names, so that an optimizer goes
// on. Returns how many. Throws TT-PRUNE-01 unless 1 <= N <= M.
inline int64_t train_nm(Module& model, int64_t N, int64_t M, double decay = 2e-4, TT_LOC) {
  if (N < 1 || N > M) require_groups("train_nm", zeros({1, std::max<int64_t>(1, M)}), N, M, loc);
  std::vector<Linear*> layers;
  model.for_each_module([&](const std::string& path, Module& m) {
    auto* const layer = dynamic_cast<Linear*>(&m);
    if (layer && layer->weight.defined() && layer->weight.size(1) % M == 0 && path != "head")
      layers.push_back(layer);
  });
  quantization::separate_mlps(model);
  for (Linear* const layer : layers) layer->replace(std::make_shared<NmLinear>(*layer, N, M, decay));
  return static_cast<int64_t>(layers.size());
}

// Sets the removed weights to 0 and puts the linear layers back. Returns how many.
inline int64_t finish_nm(Module& model) {
  const NoGrad no_grad;
  std::vector<NmLinear*> layers;
  model.for_each_module([&](const std::string&, Module& m) {
    if (auto* const layer = dynamic_cast<NmLinear*>(&m)) layers.push_back(layer);
  });
  for (NmLinear* const layer : layers) {
    Tensor w = layer->weight.detach();
    w.copy_(masked(w, nm_mask(w, layer->N, layer->M)));
    layer->base().replace(nullptr);  // ends the life of NmLinear
  }
  return static_cast<int64_t>(layers.size());
}

}  // namespace tinytorch::inline TT_BUILD
