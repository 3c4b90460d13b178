// Self-attention with the options of the decoders since Llama 2.  x [B, T, C] -> [B, T, C]
//
//   q, k, v = x W^T + b                    packed, as in SelfAttention; the bias may be on q, k, v alone
//   q, k = norm(q), norm(k)                RMSNorm over each head, if head_norms (Qwen 3, Gemma 3)
//   scores = cap tanh(scale q k^T / cap)   if soft_cap > 0 (Gemma 2)
//   window > 0: keys `window` or more positions away are hidden (Mistral)
//
// No fused kernel has a soft cap, so capped attention is composed of ops.
// Sources: Jiang et al., "Mistral 7B", 2023; Gemma Team, "Gemma 2", 2024; Henry et al., "Query-key
// normalization for transformers", 2020.
#pragma once

#include <cmath>
#include <tinytorch/layers/norm.hpp>
#include <tinytorch/transformer/attention.hpp>
#include <tinytorch/transformer/block.hpp>
#include <tinytorch/transformer/composed_attention.hpp>
#include <tinytorch/transformer/kept_heads.hpp>

namespace tinytorch::inline TT_BUILD {

// RMSNorm whose factor is offset + weight. Gemma's offset is 1, so a weight of 0 changes nothing. With an
// offset, 16-bit values are normalized in f32, because 1 + weight would lose the weight's digits.
class OffsetRmsNorm : public RMSNorm {
 public:
  explicit OffsetRmsNorm(int64_t features, double epsilon = 1e-6, double factor_offset = 0)
      : RMSNorm(features, epsilon), offset(factor_offset) {
    init::constant(weight, 1 - offset);
  }
  Tensor forward(const Tensor& x) override {
    if (offset == 0) return rms_norm(x, weight, eps);
    if (is_wide(x)) return rms_norm(x, factor(), eps);
    return rms_norm(x.to(DType::f32), factor(), eps).to(x.dtype());
  }
  static bool is_wide(const Tensor& x) { return x.dtype() == DType::f32 || x.dtype() == DType::f64; }
  // [C], in f32 if the weight has 16 bits and there is an offset
  Tensor factor() const {
    if (offset == 0) return weight;
    return (is_wide(weight) ? weight : weight.to(DType::f32)) + offset;
  }

  double offset;
};

inline NormalizedSum normalize(OffsetRmsNorm& norm, const ResidualStream& x, double dropout) {
  if (!x.branch.defined()) return {norm(x.residual), x.residual};
  if (norm.offset == 0 || OffsetRmsNorm::is_wide(x.residual))
    return residual_rms_norm(x.branch, x.residual, norm.factor(), norm.eps, dropout);
  const Tensor branch = dropout > 0 ? tinytorch::dropout(x.branch, dropout) : x.branch;
  const Tensor sum = x.residual + branch;
  return {norm(sum), sum};
}

// composed_attention with cap tanh(score / cap) in the place of each score.
inline Tensor capped_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionOptions& options, double cap, TT_LOC) {
  require_attention_shapes(q, k, v, loc);
  const int64_t H = q.size(1), T = q.size(2), S = k.size(2), D = q.size(3);
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(D));
  Tensor scores = matmul(q * scale, repeat_groups(k, H, loc).t(loc), loc);  // [B, H, T, S]
  scores = tanh(scores * (1 / cap), loc) * cap;
  const Tensor hidden = hidden_keys(T, S, options, q.device(), loc);
  if (hidden.defined()) scores = masked_fill(scores, hidden, q.dtype() == DType::f16 ? -65504.0 : -1e38, loc);
  Tensor p = softmax(scores, -1, loc);
  if (options.dropout > 0) p = dropout(p, options.dropout, default_generator(), loc);
  return matmul(p, repeat_groups(v, H, loc), loc);
}

struct DecoderAttentionOptions {
  int64_t features;              // C
  int64_t heads;                 // H
  int64_t groups;                // G
  int64_t head_size;             // D
  bool bias = false;             // of q, k and v
  bool projection_bias = false;  // of the output
  int64_t window = 0;            // 0: no window
  double scale = 0;              // of the scores; 0: 1 / sqrt(D)
  double soft_cap = 0;           // 0: none
  bool head_norms = false;
  double eps = 1e-6, norm_offset = 0;  // of the head norms
  double dropout = 0;
  std::shared_ptr<Rotary> rotary{};
  int64_t layer = 0;  // index of this layer in a cache
};

class DecoderAttention : public Module {
 public:
  explicit DecoderAttention(const DecoderAttentionOptions& given, TT_LOC)
      : options(given),
        qkv(options.features, (options.heads + 2 * options.groups) * options.head_size, options.bias),
        projection(options.heads * options.head_size, options.features, options.projection_bias) {
    if (options.heads < 1 || options.groups < 1 || options.heads % options.groups != 0) {
      fail("TT-NN-22",
           "DecoderAttention: " + std::to_string(options.groups) + " groups do not divide " +
               std::to_string(options.heads) + " heads",
           loc);
    }
    add("qkv", qkv), add("projection", projection);
    if (!options.head_norms) return;
    const auto norm = [&] {
      return std::make_shared<OffsetRmsNorm>(options.head_size, options.eps, options.norm_offset);
    };
    query_norm = add("query_norm", norm()), key_norm = add("key_norm", norm());
  }

  Tensor forward(const Tensor& x) override { return forward(x, SequencePlace{}); }
  Tensor forward(const Tensor& x, const SequencePlace& place) {
    const Scope scope = forward_scope();
    const int64_t B = x.size(0), T = x.size(1), D = options.head_size;
    const Tensor packed = qkv(x);                                             // [B, T, (H + 2G) D]
    const auto [H, G] = head_counts(options, packed.size(-1));                // pruning may have removed some
    const Tensor all = packed.reshape({B, T, H + 2 * G, D}).transpose(1, 2);  // [B, H + 2G, T, D]
    const Tensor turned = options.rotary->turn(normed(slice(all, 1, 0, H + G), H), place.start);
    const Tensor q = slice(turned, 1, 0, H), k = slice(turned, 1, H, H + G), v = slice(all, 1, H + G);
    const Tensor y = attend(place, q, k, v);  // [B, H, T, D]
    return projection(y.transpose(1, 2).reshape({B, T, H * D}));
  }

  const DecoderAttentionOptions options;
  Linear qkv, projection;
  std::shared_ptr<OffsetRmsNorm> query_norm, key_norm;  // [D]; null without head_norms

 private:
  // x [B, H + G, T, D]: the queries, then the keys
  Tensor normed(const Tensor& x, int64_t H) {
    if (!query_norm) return x;
    return cat({(*query_norm)(slice(x, 1, 0, H)), (*key_norm)(slice(x, 1, H))}, 1);
  }
  Tensor attend(const SequencePlace& place, const Tensor& q, const Tensor& k, const Tensor& v) {
    const AttentionOptions rules{.causal = true,
                                 .window = options.window,
                                 .scale = options.scale,
                                 .dropout = training() ? options.dropout : 0};
    if (options.soft_cap == 0) {
      return place.cache ? place.cache->attend(options.layer, q, k, v, rules)
                         : scaled_dot_product_attention(q, k, v, rules);
    }
    const auto capped = [&](const Tensor& queries, const Tensor& keys, const Tensor& values) {
      return capped_attention(queries, keys, values, rules, options.soft_cap);
    };
    return place.cache ? place.cache->attend_by(options.layer, q, k, v, capped) : capped(q, k, v);
  }
};

}  // namespace tinytorch::inline TT_BUILD
