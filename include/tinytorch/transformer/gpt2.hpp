// GPT-2: learned positions, pre-norm blocks with LayerNorm and a GELU MLP, and the token embedding as the
// head.
//
//   x = wte[tokens] + wpe[0 .. T)        L blocks        logits = norm(x) wte^T
//
// Source: Radford et al., "Language models are unsupervised multitask learners", 2019.
#pragma once

#include <tinytorch/layers/embedding.hpp>
#include <tinytorch/transformer/block.hpp>
#include <tinytorch/transformer/kept_heads.hpp>
#include <tinytorch/transformer/language_model.hpp>

namespace tinytorch::inline TT_BUILD {

// The defaults are GPT-2 small, 124 M parameters.
struct Gpt2Config {
  int64_t vocabulary = 50257;  // V
  int64_t context = 1024;      // positions
  int64_t features = 768;      // C
  int64_t layers = 12;         // L
  int64_t heads = 12;          // H
  int64_t hidden = 0;          // F, width of the MLPs; 0: 4 C
  Activation activation = Activation::gelu_tanh;
  double eps = 1e-5;
  double embedding_dropout = 0.1, attention_dropout = 0.1, residual_dropout = 0.1;
  double deviation = 0.02;   // standard deviation of the initial weights
  bool tied = true;          // the head is the token embedding
  int64_t start_token = -1;  // -1: none
  std::vector<int64_t> end_tokens{};
};

class Gpt2 : public LanguageModel {
 public:
  using Block = TransformerBlock<LayerNorm, Mlp>;

  // Registers the parts in this order: token_embedding, position_embedding, blocks, final_norm. Appends a
  // block per layer with these arguments: its attention with the layer's index, eps, residual_dropout, the
  // width of its MLP, and the activation. A model that is not tied has a head of its own without bias,
  // registered last as "head". Finally calls initialize_transformer with the 2 L branches that add to the
  // residual stream.
  explicit Gpt2(const Gpt2Config& given)
      : config(given),
        token_embedding(config.vocabulary, config.features),
        position_embedding(config.context, config.features),
        final_norm(config.features, config.eps) {
    add("token_embedding", token_embedding), add("position_embedding", position_embedding);
    add("blocks", blocks), add("final_norm", final_norm);
    const int64_t hidden = config.hidden > 0 ? config.hidden : 4 * config.features;
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      const SelfAttentionOptions attention{.features = config.features,
                                           .heads = config.heads,
                                           .dropout = config.attention_dropout,
                                           .layer = layer};
      blocks.append(attention, config.eps, config.residual_dropout, hidden, config.activation);
    }
    if (!config.tied)
      own_head = add("head", std::make_shared<Linear>(config.features, config.vocabulary, false));
    initialize_transformer(*this, config.deviation, 2 * config.layers);
  }

  int64_t vocabulary() const override { return config.vocabulary; }
  int64_t context() const override { return config.context; }
  std::vector<int64_t> end_tokens() const override { return config.end_tokens; }
  KvShape kv_shape() const override {
    return kept_kv_shape(blocks, {config.layers, config.heads, config.features / config.heads});
  }

  // tokens i64 [B, T] -> [B, T, C]: the embedding of each token plus that of its position
  // (position_embedding.rows), dropout in training, all blocks, and the final norm of their residual stream.
  // With a cache, positions continue after the cached tokens.
  Tensor features(const Tensor& tokens, AttentionCache* cache = nullptr) override {
    require_tokens(tokens);
    const SequencePlace place = SequencePlace::after(cache);
    Tensor x = token_embedding(tokens) + position_embedding.rows(place.start, tokens.size(1));  // [B, T, C]
    if (training() && config.embedding_dropout > 0) x = dropout(x, config.embedding_dropout);
    const ResidualStream y = blocks.forward({x}, place);
    return normalize(final_norm, y, training() ? config.residual_dropout : 0).normalized;
  }
  // [..., C] -> [..., V]: the dot products of the features with the rows of the head's weight.
  Tensor head(const Tensor& features) override {
    return own_head ? (*own_head)(features) : linear(features, token_embedding.weight);
  }
  // [V, C]: the token embedding if tied, so that both uses train one table, else the own head's weight.
  Tensor head_weight() const override { return own_head ? own_head->weight : token_embedding.weight; }

  const Gpt2Config config;
  Embedding token_embedding;
  LearnedPositions position_embedding;
  BlockStack<Block> blocks;
  LayerNorm final_norm;
  std::shared_ptr<Linear> own_head;  // null if tied
};

}  // namespace tinytorch::inline TT_BUILD
