// SparseLinear: a linear layer for inference whose weight is stored in a sparse format. It takes the place of
// a Linear in a module tree.
//
//   store_sparse(linear, "bitmap");              // one layer, which forgets its dense weight
//   store_sparse(model, "bitmap");               // all linear layers whose stored bytes fall by it
//
// The parts of the weight are buffers, so that the tree moves them to devices and writes them to files.
#pragma once

#include <tinytorch/layers/linear.hpp>
#include <tinytorch/pruning/sparse_weight.hpp>
#include <tinytorch/quantization/separate_mlp.hpp>

namespace tinytorch::inline TT_BUILD {

class SparseLinear : public Module {
 public:
  // weight [N, K], bias [N] or undefined.
  SparseLinear(SparseWeight weight, const Tensor& given_bias, TT_LOC) : weight_(std::move(weight)) {
    for (const NamedPart& part : weight_.parts()) {
      if (part.exact) {
        add_exact_buffer(part.name, part.tensor, loc);
      } else {
        add_buffer(part.name, part.tensor, loc);
      }
    }
    if (given_bias.defined()) bias_ = add_buffer("bias", given_bias.detach(), loc);
  }
  // x [..., K] -> [..., N].
  Tensor forward(const Tensor& x) override { return sparse_linear(x, weight_, bias_); }

  const SparseWeight& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }

 private:
  SparseWeight weight_;
  Tensor bias_;
};

// Puts `weight` in the place of the layer's own, which it forgets. Its bias stays.
inline std::shared_ptr<SparseLinear> replace_sparse(Linear& layer, const SparseWeight& weight) {
  auto sparse = std::make_shared<SparseLinear>(weight, layer.bias);
  layer.replace(sparse);
  layer.forget_own_tensors();
  layer.weight = Tensor(), layer.bias = Tensor();
  return sparse;
}
inline std::shared_ptr<SparseLinear> store_sparse(Linear& layer, std::string_view format, TT_LOC) {
  return replace_sparse(layer, sparse_weight(layer.weight, format, loc));
}

namespace pruning {
// Returns true if a weight has the pattern and the dtype of a format. A format without a pattern takes any
// weight, and an unknown name is refused later.
inline bool can_store(const Tensor& w, std::string_view format) {
  if (format != "2:4" && format != "strips") return true;
  if (w.size(1) % 4 != 0 || (format == "strips" && !is_16_bit(w.dtype()))) return false;
  if (w.numel() == 0) return true;
  const Tensor kept = ne(w.detach(), zeros(Shape{}, w.dtype(), w.device())).to(DType::f32);
  return max(sum(kept.reshape({w.numel() / 4, 4}), {1})).item<float>() <= 2;
}
}  // namespace pruning

// Stores the linear layers of a model that are smaller in this format than dense; for 2:4 and strips, those
// that have its pattern, and for strips 16 bits. Fused MLPs become separate calls. Returns how many.
inline int64_t store_sparse(Module& model, std::string_view format, TT_LOC) {
  const NoGrad no_grad;
  std::vector<std::pair<Linear*, SparseWeight>> planned;
  model.for_each_module([&](const std::string&, Module& m) {
    auto* const layer = dynamic_cast<Linear*>(&m);
    if (!layer || !layer->weight.defined() || !pruning::can_store(layer->weight, format)) return;
    const SparseWeight stored = sparse_weight(layer->weight, format, loc);
    const int64_t dense = layer->weight.numel() * static_cast<int64_t>(size_of(layer->weight.dtype()));
    if (stored.bytes() < dense) planned.emplace_back(layer, stored);
  });
  if (!planned.empty()) quantization::separate_mlps(model);
  for (auto& [layer, stored] : planned) replace_sparse(*layer, stored);
  return static_cast<int64_t>(planned.size());
}

}  // namespace tinytorch::inline TT_BUILD
