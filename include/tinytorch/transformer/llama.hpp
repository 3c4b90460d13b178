// Llama: rotary positions, pre-norm blocks with RMSNorm, grouped-query attention and a SwiGLU MLP.
//
//   x = embed[tokens]        L blocks        logits = norm(x) W_head^T
//
// Sources: Touvron et al., "LLaMA", 2023; grouped-query attention from Llama 2, scaled rotary frequencies
// from Llama 3.1.
#pragma once

#include <tinytorch/layers/embedding.hpp>
#include <tinytorch/transformer/block.hpp>
#include <tinytorch/transformer/kept_heads.hpp>
#include <tinytorch/transformer/language_model.hpp>

namespace tinytorch::inline TT_BUILD {

// The defaults are Llama 2 7B.
struct LlamaConfig {
  int64_t vocabulary = 32000;  // V
  int64_t context = 4096;
  int64_t features = 4096;  // C
  int64_t layers = 32;      // L
  int64_t heads = 32;       // H
  int64_t groups = 0;       // G, heads of keys and values; 0: H
  int64_t head_size = 0;    // D; 0: C / H
  int64_t hidden = 11008;   // F, width of the MLPs
  RotaryOptions rotary{};
  double eps = 1e-6;
  bool attention_bias = false, mlp_bias = false;
  double attention_dropout = 0;
  double deviation = 0.02;   // standard deviation of the initial weights
  bool tied = false;         // the head is the token embedding
  int64_t start_token = -1;  // -1: none
  std::vector<int64_t> end_tokens{};
};

class Llama : public LanguageModel {
 public:
  using Block = TransformerBlock<RMSNorm, SwiGlu>;

  explicit Llama(const LlamaConfig& given)
      : config(given),
        token_embedding(config.vocabulary, config.features),
        final_norm(config.features, config.eps) {
    add("token_embedding", token_embedding), add("blocks", blocks), add("final_norm", final_norm);
    SelfAttentionOptions attention{.features = config.features,
                                   .heads = config.heads,
                                   .groups = config.groups,
                                   .head_size = config.head_size,
                                   .bias = config.attention_bias,
                                   .dropout = config.attention_dropout};
    const int64_t D =
        config.head_size > 0 ? config.head_size : config.features / std::max<int64_t>(1, config.heads);
    attention.rotary = std::make_shared<Rotary>(D, config.rotary);
    for (attention.layer = 0; attention.layer < config.layers; ++attention.layer) {
      blocks.append(attention, config.eps, 0.0, config.hidden, config.mlp_bias);
    }
    if (!config.tied)
      own_head = add("head", std::make_shared<Linear>(config.features, config.vocabulary, false));
    initialize_transformer(*this, config.deviation);
  }

  int64_t vocabulary() const override { return config.vocabulary; }
  int64_t context() const override { return config.rotary.context(config.context); }
  std::vector<int64_t> end_tokens() const override { return config.end_tokens; }
  KvShape kv_shape() const override {
    return kept_kv_shape(blocks, {config.layers, config.groups > 0 ? config.groups : config.heads,
                                  config.head_size > 0 ? config.head_size : config.features / config.heads});
  }

  bool steps_fit_graphs() const override { return !config.rotary.depends_on_length(); }

  Tensor features(const Tensor& tokens, AttentionCache* cache = nullptr) override {
    require_tokens(tokens);
    const ResidualStream y = blocks.forward({token_embedding(tokens)}, SequencePlace::after(cache));
    return normalize(final_norm, y, 0).normalized;  // [B, T, C]
  }
  Tensor head(const Tensor& features) override {
    return own_head ? (*own_head)(features) : linear(features, token_embedding.weight);
  }
  Tensor head_weight() const override { return own_head ? own_head->weight : token_embedding.weight; }

  const LlamaConfig config;
  Embedding token_embedding;
  BlockStack<Block> blocks;
  RMSNorm final_norm;
  std::shared_ptr<Linear> own_head;  // null if tied
};

}  // namespace tinytorch::inline TT_BUILD
