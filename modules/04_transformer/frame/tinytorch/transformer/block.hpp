// The pre-norm block (Xiong et al., 2020): x += attention(norm(x)), then x += mlp(norm(x)).
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.10.
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

// residual + dropout(branch): what the stream stands for (task 4.10).
inline Tensor made_sum(const ResidualStream& x, double p);

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

  // Task 4.10.
  ResidualStream forward(const ResidualStream& x, const SequencePlace& place);
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

#include <tasks/transformer/block.hpp>
