// Decoder: Llama with the options by which later model families differ from it: Mistral, Qwen 2 and 3, Phi-3,
// Gemma 1 to 3. families.hpp says which options make which family.
//
//   x = scale embed[tokens]
//   x += post(attention(norm(x))),  x += post(W_down (f(W_gate norm(x)) * W_up norm(x)))      in each of L
//   blocks logits = cap tanh(norm(x) W_head^T / cap)
//
// Without these options a Decoder computes what a Llama of the same configuration computes.
#pragma once

#include <tinytorch/layers/embedding.hpp>
#include <tinytorch/transformer/decoder_attention.hpp>
#include <tinytorch/transformer/llama.hpp>

namespace tinytorch::inline TT_BUILD {

// Each option is off by default.
struct DecoderConfig : LlamaConfig {
  std::string family = "llama";                   // model_type at Hugging Face
  bool qkv_bias = false;                          // a bias on q, k and v but not on the output
  int64_t window = 0;                             // of the sliding layers
  std::vector<bool> sliding{};                    // [L], which layers have the window; empty: none
  std::optional<RotaryOptions> sliding_rotary{};  // of the sliding layers, if it is not that of the others
  bool head_norms = false;                        // norms of each head of q and k
  bool post_norms = false;                        // a norm after each branch too
  double norm_offset = 0;                         // all norms multiply by norm_offset + weight
  double attention_scale = 0;                     // of the scores; 0: 1 / sqrt(D)
  double attention_cap = 0, logit_cap = 0;        // soft caps of the scores and of the logits; 0: none
  double embedding_scale = 1;
  Activation activation = Activation::silu;  // of the gates of the MLPs

  bool slides(int64_t layer) const { return !sliding.empty() && sliding[static_cast<size_t>(layer)]; }
  int64_t head_features() const { return head_size > 0 ? head_size : features / std::max<int64_t>(1, heads); }
  int64_t kv_groups() const { return groups > 0 ? groups : heads; }
};

// Gate and up are one packed matrix W [2F, C], the gate's rows first.
class GatedMlp : public Module {
 public:
  GatedMlp(int64_t features, int64_t hidden_features, Activation activation, bool bias)
      : fn(activation),
        hidden(hidden_features),
        gate_up(features, 2 * hidden, bias),
        down(hidden, features, bias) {
    add("gate_up", gate_up), add("down", down);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor both = gate_up(x);       // [B, T, 2F]
    const int64_t F = both.size(-1) / 2;  // pruning may have removed some of `hidden`
    return down(open(slice(both, -1, 0, F)) * slice(both, -1, F));
  }

  Activation fn;   // silu, gelu or gelu_tanh
  int64_t hidden;  // F, before pruning
  Linear gate_up, down;

 private:
  Tensor open(const Tensor& gate) const {
    if (fn == Activation::gelu_tanh) return gelu_tanh(gate);
    return fn == Activation::gelu ? gelu(gate) : silu(gate);
  }
};

class DecoderBlock : public Module {
 public:
  DecoderBlock(const DecoderConfig& c, const DecoderAttentionOptions& options)
      : attention_norm(c.features, c.eps, c.norm_offset),
        attention(options),
        mlp_norm(c.features, c.eps, c.norm_offset),
        mlp(c.features, c.hidden, c.activation, c.mlp_bias) {
    add("attention_norm", attention_norm), add("attention", attention);
    add("mlp_norm", mlp_norm), add("mlp", mlp);
    if (!c.post_norms) return;
    const auto norm = [&] { return std::make_shared<OffsetRmsNorm>(c.features, c.eps, c.norm_offset); };
    attention_post_norm = add("attention_post_norm", norm()), mlp_post_norm = add("mlp_post_norm", norm());
  }

  ResidualStream forward(const ResidualStream& x, const SequencePlace& place) {
    const Scope scope = forward_scope();
    const NormalizedSum a = normalize(attention_norm, x, 0);
    const Tensor branch = attention.forward(a.normalized, place);
    const NormalizedSum m =
        normalize(mlp_norm, {a.sum, attention_post_norm ? (*attention_post_norm)(branch) : branch}, 0);
    const Tensor fed = mlp(m.normalized);
    return {m.sum, mlp_post_norm ? (*mlp_post_norm)(fed) : fed};
  }
  Tensor forward(const Tensor& x) override {
    const ResidualStream y = forward(ResidualStream{x}, SequencePlace{});
    return y.residual + y.branch;
  }

  OffsetRmsNorm attention_norm;
  DecoderAttention attention;
  OffsetRmsNorm mlp_norm;
  GatedMlp mlp;
  std::shared_ptr<OffsetRmsNorm> attention_post_norm, mlp_post_norm;  // null without post_norms
};

class Decoder : public LanguageModel {
 public:
  explicit Decoder(const DecoderConfig& given, TT_LOC)
      : config(given),
        token_embedding(config.vocabulary, config.features),
        final_norm(config.features, config.eps, config.norm_offset) {
    if (!config.sliding.empty() && std::ssize(config.sliding) != config.layers) {
      fail("TT-NN-22",
           "Decoder: `sliding` has " + std::to_string(config.sliding.size()) + " entries for " +
               std::to_string(config.layers) + " layers",
           loc);
    }
    add("token_embedding", token_embedding), add("blocks", blocks), add("final_norm", final_norm);
    const int64_t D = config.head_features();
    DecoderAttentionOptions options{.features = config.features,
                                    .heads = config.heads,
                                    .groups = config.kv_groups(),
                                    .head_size = D,
                                    .bias = config.attention_bias || config.qkv_bias,
                                    .projection_bias = config.attention_bias,
                                    .scale = config.attention_scale,
                                    .soft_cap = config.attention_cap,
                                    .head_norms = config.head_norms,
                                    .eps = config.eps,
                                    .norm_offset = config.norm_offset,
                                    .dropout = config.attention_dropout};
    const auto far = std::make_shared<Rotary>(D, config.rotary);
    const auto near = config.sliding_rotary ? std::make_shared<Rotary>(D, *config.sliding_rotary) : far;
    for (options.layer = 0; options.layer < config.layers; ++options.layer) {
      const bool slides = config.slides(options.layer);
      options.window = slides ? config.window : 0, options.rotary = slides ? near : far;
      blocks.append(config, options);
    }
    if (!config.tied)
      own_head = add("head", std::make_shared<Linear>(config.features, config.vocabulary, false));
    initialize_transformer(*this, config.deviation);
  }

  int64_t vocabulary() const override { return config.vocabulary; }
  int64_t context() const override { return config.rotary.context(config.context); }
  std::vector<int64_t> end_tokens() const override { return config.end_tokens; }
  KvShape kv_shape() const override {
    return kept_kv_shape(blocks, {config.layers, config.kv_groups(), config.head_features()});
  }

  bool steps_fit_graphs() const override {
    const bool other_frequencies = config.rotary.depends_on_length() ||
                                   (config.sliding_rotary && config.sliding_rotary->depends_on_length());
    return config.attention_cap == 0 && !other_frequencies;
  }

  Tensor features(const Tensor& tokens, AttentionCache* cache = nullptr) override {
    require_tokens(tokens);
    Tensor x = token_embedding(tokens);  // [B, T, C]
    if (config.embedding_scale != 1) x = x * full(Shape{}, config.embedding_scale, x.dtype(), x.device());
    const ResidualStream y = blocks.forward({x}, SequencePlace::after(cache));
    return normalize(final_norm, y, 0).normalized;
  }
  Tensor head(const Tensor& features) override {
    const Tensor logits = own_head ? (*own_head)(features) : linear(features, token_embedding.weight);
    return config.logit_cap == 0 ? logits : tanh(logits * (1 / config.logit_cap)) * config.logit_cap;
  }
  Tensor head_weight() const override {
    if (config.logit_cap != 0) return {};  // the logits are more than a product
    return own_head ? own_head->weight : token_embedding.weight;
  }

  const DecoderConfig config;
  Embedding token_embedding;
  BlockStack<DecoderBlock> blocks;
  OffsetRmsNorm final_norm;
  std::shared_ptr<Linear> own_head;  // null if tied
};

}  // namespace tinytorch::inline TT_BUILD
