// The pre-norm block (Xiong et al., 2020): x += attention(norm(x)), then x += mlp(norm(x)).
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.10.
#pragma once

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

// Blocks one after the other, named by number: "0.attention.qkv.weight".
template <class Block>
class BlockStack : public Module {
 public:
  template <class... Arguments>
  Block& append(Arguments&&... arguments) {
    auto block = std::make_shared<Block>(std::forward<Arguments>(arguments)...);
    blocks_.push_back(add(std::to_string(blocks_.size()), std::move(block)));
    return *blocks_.back();
  }
  ResidualStream forward(ResidualStream x, const SequencePlace& place) {
    const Scope scope = forward_scope();
    for (const auto& block : blocks_) x = block->forward(x, place);
    return x;
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (const auto& block : blocks_) y = (*block)(y);
    return y;
  }
  int64_t size() const { return static_cast<int64_t>(blocks_.size()); }
  Block& operator[](int64_t i) const { return *blocks_.at(static_cast<size_t>(i)); }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
};

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/transformer/block.hpp>
