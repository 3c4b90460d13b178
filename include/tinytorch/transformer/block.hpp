// The pre-norm transformer block: x += attention(norm(x)), then x += mlp(norm(x)).
//
// A dropout, a residual sum and a normalization follow each branch, and one fused op computes all three. So a
// block returns the residual and its last branch without adding them: the next block, or the final norm, adds
// them in the fused op of its own normalization.
// Source: Xiong et al., "On layer normalization in the transformer architecture", 2020.
#pragma once

#include <tinytorch/layers/module_list.hpp>
#include <tinytorch/layers/norm.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/attention.hpp>
#include <tinytorch/transformer/mlp.hpp>

namespace tinytorch::inline TT_BUILD {

// The residual stream residual + dropout(branch), before the sum is computed. Both are [B, T, C].
struct ResidualStream {
  Tensor residual;
  Tensor branch{};  // undefined before the first block
};

// Returns {norm(sum), sum} of sum = residual + dropout(branch). `dropout` is a probability; 0: no dropout.
inline NormalizedSum normalize(LayerNorm& norm, const ResidualStream& x, double dropout) {
  if (!x.branch.defined()) return {norm(x.residual), x.residual};
  return residual_layer_norm(x.branch, x.residual, norm.weight, norm.bias, norm.eps, dropout);
}
inline NormalizedSum normalize(RMSNorm& norm, const ResidualStream& x, double dropout) {
  if (!x.branch.defined()) return {norm(x.residual), x.residual};
  return residual_rms_norm(x.branch, x.residual, norm.weight, norm.eps, dropout);
}

// Norm: LayerNorm or RMSNorm. Feed: Mlp or SwiGlu.
template <class Norm, class Feed>
class TransformerBlock : public Module {
 public:
  template <class... FeedArguments>
  TransformerBlock(const SelfAttentionOptions& options, double eps, double residual_dropout,
                   FeedArguments... feed)
      : attention_norm(options.features, eps),
        attention(options),
        mlp_norm(options.features, eps),
        mlp(options.features, feed...),
        dropout(residual_dropout) {
    add("attention_norm", attention_norm), add("attention", attention);
    add("mlp_norm", mlp_norm), add("mlp", mlp);
  }

  ResidualStream forward(const ResidualStream& x, const SequencePlace& place) {
    const Scope scope = forward_scope();
    const double p = training() ? dropout : 0;
    const NormalizedSum a = normalize(attention_norm, x, p);
    const NormalizedSum m = normalize(mlp_norm, {a.sum, attention.forward(a.normalized, place)}, p);
    return {m.sum, mlp(m.normalized)};
  }
  // The block as a layer on its own: [B, T, C] -> [B, T, C].
  Tensor forward(const Tensor& x) override {
    const ResidualStream y = forward(ResidualStream{x}, SequencePlace{});
    return y.residual + (training() && dropout > 0 ? tinytorch::dropout(y.branch, dropout) : y.branch);
  }

  Norm attention_norm;
  SelfAttention attention;
  Norm mlp_norm;
  Feed mlp;
  double dropout;  // probability, for each branch
};

// A ModuleList of blocks that are applied in order. Parameters are named "0.attention.qkv.weight".
template <class Block>
class BlockStack : public ModuleList<Block> {
 public:
  // Constructs a block from `arguments` at the end.
  template <class... Arguments>
  Block& append(Arguments&&... arguments) {
    return ModuleList<Block>::append(Block(std::forward<Arguments>(arguments)...));
  }
  ResidualStream forward(ResidualStream x, const SequencePlace& place) {
    const Scope scope = this->forward_scope();
    for (Block& block : *this) x = block.forward(x, place);
    return x;
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (Block& block : *this) y = block(y);
    return y;
  }
};

}  // namespace tinytorch::inline TT_BUILD
