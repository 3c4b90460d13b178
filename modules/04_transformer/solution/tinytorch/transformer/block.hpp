// The pre-norm block (Xiong et al., 2020): x += attention(norm(x)), then x += mlp(norm(x)).
//
// What runs through all blocks unchanged but for these sums is the residual stream: a gradient reaches the
// first block through additions alone. A block hands on the last sum not yet made (the library makes it
// together with the normalization that comes next, in one visit to memory).
#pragma once

#include <tinytorch/layers/module_list.hpp>
#include <tinytorch/layers/norm.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/attention.hpp>
#include <tinytorch/transformer/mlp.hpp>

namespace tinytorch::inline TT_BUILD {

// The residual stream: residual + dropout(branch), the sum not yet made. [B, T, C] both.
struct ResidualStream {
  Tensor residual;
  Tensor branch{};  // undefined at the start
};

// residual + dropout(branch): what the stream stands for. `p`: the probability of dropout; 0: none. Without a
// branch (`if (!x.branch.defined())`) it is the residual itself.
inline Tensor made_sum(const ResidualStream& x, double p) {
  if (!x.branch.defined()) return x.residual;
  return x.residual + (p > 0 ? dropout(x.branch, p) : x.branch);
}

// The sum, and its normalization: {norm(sum), sum}. Norm: LayerNorm or RMSNorm.
template <class Norm>
NormalizedSum normalize(Norm& norm, const ResidualStream& x, double p) {
  const Tensor sum = made_sum(x, p);
  return {norm(sum), sum};
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

  // normalize the stream by attention_norm; attention.forward(normalized, place) is the branch that goes
  // with its sum; normalize these two by mlp_norm; hand on the sum, and mlp's result as the branch. Dropout
  // in training alone: probability().
  ResidualStream forward(const ResidualStream& x, const SequencePlace& place) {
    const Scope scope = forward_scope();
    const NormalizedSum a = normalize(attention_norm, x, probability());
    const ResidualStream middle{a.sum, attention.forward(a.normalized, place)};
    const NormalizedSum m = normalize(mlp_norm, middle, probability());
    return {m.sum, mlp(m.normalized)};
  }
  // By itself, as a layer: [B, T, C] -> [B, T, C]
  Tensor forward(const Tensor& x) override {
    return made_sum(forward(ResidualStream{x}, SequencePlace{}), probability());
  }

  Norm attention_norm;
  SelfAttention attention;
  Norm mlp_norm;
  Feed mlp;
  double dropout;  // of each branch

 private:
  double probability() const { return training() ? dropout : 0; }
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
