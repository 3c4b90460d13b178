// MultiheadAttention: attention of queries to keys and values, each projected for H heads, as
// torch.nn.MultiheadAttention computes it. Parameters have its names, so that its weights load by name.
//
//   tt::MultiheadAttention attention(64, 8, {.batch_first = true});
//   auto [y, weights] = attention(x, x, x);              // x [B, T, 64]
//
// query [T, B, C], key and value [S, B, C], or [B, T, C] and [B, S, C] with batch_first. Without masks and
// weights the fused scaled_dot_product_attention() is used; masks and weights store all scores [B, H, T, S].
// A language model's attention with its cache is SelfAttention (transformer/attention.hpp).
// Source: Vaswani et al., 2017.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

struct MultiheadAttentionOptions {
  double dropout = 0;  // of the attention weights, in training
  bool bias = true;
  bool batch_first = false;
};
struct AttentionMasks {
  Tensor key_padding_mask{};  // bool [B, S]: true for keys that no query may attend to
  // [T, S] or [B H, T, S]: bool, true where attention is not allowed, or numbers that are added to scores
  Tensor attn_mask{};
  bool need_weights = false;  // return the attention weights, too. (PyTorch's default is true.)
};
struct AttentionOutput {
  Tensor output;   // the shape of query
  Tensor weights;  // [B, T, S], the mean over the heads; undefined unless need_weights
};

class MultiheadAttention : public Module {
 public:
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& given = {},
                     Generator& generator = default_generator(), TT_LOC)
      : features(embed_dim),
        heads(num_heads),
        options(given),
        out_proj(checked(embed_dim, num_heads, given, loc), embed_dim, given.bias, generator) {
    in_proj_weight = add_parameter("in_proj_weight", empty({3 * features, features}));
    init::xavier_uniform(in_proj_weight, 1, generator);
    if (options.bias) {
      in_proj_bias = add_parameter("in_proj_bias", zeros({3 * features}));
      init::constant(out_proj.bias, 0);
    }
    add("out_proj", out_proj);
  }

  using Module::operator();
  // Self-attention: x is query, key and value.
  Tensor forward(const Tensor& x) override { return (*this)(x, x, x).output; }

  AttentionOutput operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionMasks& masks = {}, TT_LOC) {
    const Scope scope = forward_scope(loc);
    require_sizes(query, key, value, loc);
    const Tensor q = heads_of(query, 0), k = heads_of(key, 1), v = heads_of(value, 2);  // [B, H, T or S, D]
    const double p = training() ? options.dropout : 0;
    AttentionOutput result;
    Tensor y;  // [B, H, T, D]
    if (!masks.key_padding_mask.defined() && !masks.attn_mask.defined() && !masks.need_weights) {
      y = scaled_dot_product_attention(q, k, v, {.dropout = p});
    } else {
      Tensor weights = softmax(masked_scores(q, k, masks, loc));
      if (p > 0) weights = tinytorch::dropout(weights, p);
      if (masks.need_weights) result.weights = mean(weights, {1});
      y = matmul(weights, v);
    }
    const int64_t B = q.size(0), T = q.size(2);
    const Tensor joined = options.batch_first ? y.transpose(1, 2).reshape({B, T, features})
                                              : y.permute({2, 0, 1, 3}).reshape({T, B, features});
    result.output = out_proj(joined);
    return result;
  }

  int64_t features, heads;  // C, H; D = C / H
  MultiheadAttentionOptions options;
  Tensor in_proj_weight, in_proj_bias;  // [3 C, C]: of queries, keys, values; [3 C]
  Linear out_proj;

 private:
  static int64_t checked(int64_t features, int64_t heads, const MultiheadAttentionOptions& o, Loc loc) {
    if (features < 1 || heads < 1 || features % heads != 0) {
      fail("TT-NN-22",
           "MultiheadAttention: " + std::to_string(features) + " features cannot be split into " +
               std::to_string(heads) + " heads",
           loc);
    }
    if (!(o.dropout >= 0 && o.dropout <= 1))
      fail("TT-RANGE-02", "MultiheadAttention: dropout must be in [0, 1]", loc);
    return features;
  }
  void require_sizes(const Tensor& q, const Tensor& k, const Tensor& v, Loc loc) const {
    const int batch = options.batch_first ? 0 : 1;
    const bool fit = q.rank() == 3 && k.rank() == 3 && v.shape() == k.shape() && q.size(2) == features &&
                     k.size(2) == features && q.size(batch) == k.size(batch);
    if (fit) return;
    fail("TT-SHAPE-02",
         "MultiheadAttention: sizes differ: query " + q.describe() + ", key " + k.describe() + ", value " +
             v.describe() + "\n  rule: " +
             (options.batch_first ? "query [B, T, C], key and value [B, S, C]"
                                  : "query [T, B, C], key and value [S, B, C]") +
             " with C = " + std::to_string(features),
         loc);
  }
  // The projection of x by a third of in_proj: 0 queries, 1 keys, 2 values.
  Tensor heads_of(const Tensor& x, int64_t third) const {
    const int64_t from = third * features, to = from + features;
    const Tensor bias = in_proj_bias.defined() ? in_proj_bias.slice(0, from, to) : Tensor();
    const Tensor y = linear(x, in_proj_weight.slice(0, from, to), bias);
    const Tensor split = y.reshape({x.size(0), x.size(1), heads, features / heads});
    return options.batch_first ? split.transpose(1, 2) : split.permute({1, 2, 0, 3});
  }
  // The mask as numbers that are added to the scores.
  static Tensor added(const Tensor& mask, const Tensor& scores) {
    if (mask.dtype() != boolean) return mask;
    const Tensor none = zeros(mask.shape(), scores.dtype(), scores.device());
    return masked_fill(none, mask, -std::numeric_limits<double>::infinity());
  }
  Tensor masked_scores(const Tensor& q, const Tensor& k, const AttentionMasks& masks, Loc loc) const {
    const int64_t B = q.size(0), T = q.size(2), S = k.size(2);
    const double scale = 1 / std::sqrt(static_cast<double>(features / heads));
    Tensor scores = matmul(q * scale, k.transpose(2, 3));  // [B, H, T, S]
    if (const Tensor& m = masks.attn_mask; m.defined()) {
      const bool each = m.shape() == Shape{B * heads, T, S};
      require_mask(each || m.shape() == Shape{T, S}, "attn_mask must be [T, S] or [B H, T, S]", m, loc);
      scores = scores + added(each ? m.reshape({B, heads, T, S}) : m, scores);
    }
    if (const Tensor& m = masks.key_padding_mask; m.defined()) {
      require_mask(m.dtype() == boolean && m.shape() == Shape{B, S}, "key_padding_mask must be bool [B, S]",
                   m, loc);
      scores = scores + added(m.reshape({B, 1, 1, S}), scores);
    }
    return scores;
  }
  static void require_mask(bool fits, const char* rule, const Tensor& mask, Loc loc) {
    if (!fits)
      fail("TT-SHAPE-02", std::string("MultiheadAttention: ") + rule + ", got " + mask.describe(), loc);
  }
};

}  // namespace tinytorch::inline TT_BUILD
