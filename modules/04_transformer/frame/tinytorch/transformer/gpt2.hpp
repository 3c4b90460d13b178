// GPT-2: learned positions, pre-norm blocks with LayerNorm and a GELU MLP, and the token embedding as the
// head.
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.11. It is cut
// from the library's header by modules/frames.py.
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

  explicit Gpt2(const Gpt2Config& given);  // task 4.11

  int64_t vocabulary() const override { return config.vocabulary; }
  int64_t context() const override { return config.context; }
  std::vector<int64_t> end_tokens() const override { return config.end_tokens; }
  KvShape kv_shape() const override {
    return kept_kv_shape(blocks, {config.layers, config.heads, config.features / config.heads});
  }

  inline Tensor features(const Tensor& tokens, AttentionCache* cache = nullptr) override;  // task 4.11
  inline Tensor head(const Tensor& features) override;                                     // task 4.11
  inline Tensor head_weight() const override;                                              // task 4.11

  const Gpt2Config config;
  Embedding token_embedding;
  LearnedPositions position_embedding;
  BlockStack<Block> blocks;
  LayerNorm final_norm;
  std::shared_ptr<Linear> own_head;  // null if tied
};

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/transformer/gpt2.hpp>
