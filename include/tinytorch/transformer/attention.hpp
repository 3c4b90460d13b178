// Self-attention: each token is a weighted mean of the tokens it may attend to.  x [B, T, C] -> [B, T, C]
//
//   q, k, v = x W^T + b      packed QKV: W [(H + 2G) D, C], rows of the H queries, the G keys, the G values
//   y = attention(rotate(q), rotate(k), v)       [B, H, T, D]
//   out = y W_out^T + b_out                      of the concatenated heads [B, T, H D]
//
// G = H is multi-head attention (Vaswani et al., 2017), G = 1 is multi-query attention (Shazeer, 2019), and a
// G between them is grouped-query attention (Ainslie et al., 2023).
#pragma once

#include <tinytorch/kv_cache/attention_cache.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/kept_heads.hpp>
#include <tinytorch/transformer/positions.hpp>

namespace tinytorch::inline TT_BUILD {

struct SelfAttentionOptions {
  int64_t features;       // C
  int64_t heads;          // H
  int64_t groups = 0;     // G, heads of keys and values; 0: H
  int64_t head_size = 0;  // D; 0: C / H
  bool causal = true;
  int64_t window = 0;  // sliding window: keys `window` or more positions away are masked; 0: no window
  bool bias = true;    // both linear layers have a bias
  double dropout = 0;  // dropout of the attention probabilities
  std::shared_ptr<Rotary> rotary{};
  int64_t layer = 0;  // index of this layer in a cache
};

class SelfAttention : public Module {
 public:
  explicit SelfAttention(const SelfAttentionOptions& given, TT_LOC)
      : options(complete(given, loc)),
        qkv(options.features, (options.heads + 2 * options.groups) * options.head_size, options.bias),
        projection(options.heads * options.head_size, options.features, options.bias) {
    add("qkv", qkv), add("projection", projection);
  }

  Tensor forward(const Tensor& x) override { return forward(x, SequencePlace{}); }
  Tensor forward(const Tensor& x, const SequencePlace& place) {
    const Scope scope = forward_scope();
    const AttentionOptions rules{
        .causal = options.causal, .window = options.window, .dropout = training() ? options.dropout : 0};
    const Tensor packed = qkv(x);                               // [B, T, (H + 2G) D]
    const auto [H, G] = head_counts(options, packed.size(-1));  // pruning may have removed some
    if (!options.rotary && !place.cache) return projection(joined_attention(packed, H, G, rules));

    const int64_t B = x.size(0), T = x.size(1), D = options.head_size;
    const Tensor all = packed.reshape({B, T, H + 2 * G, D}).transpose(1, 2);  // [B, H + 2G, T, D]
    const Tensor turned = options.rotary ? options.rotary->turn(slice(all, 1, 0, H + G), place.start) : all;
    const Tensor q = slice(turned, 1, 0, H), k = slice(turned, 1, H, H + G), v = slice(all, 1, H + G);
    const Tensor y = place.cache ? place.cache->attend(options.layer, q, k, v, rules)
                                 : scaled_dot_product_attention(q, k, v, rules);  // [B, H, T, D]
    return projection(y.transpose(1, 2).reshape({B, T, H * D}));
  }

  const SelfAttentionOptions options;  // with groups and head_size resolved
  Linear qkv, projection;

 private:
  static SelfAttentionOptions complete(SelfAttentionOptions o, Loc loc) {
    if (o.groups == 0) o.groups = o.heads;
    const bool counts = o.features > 0 && o.heads > 0 && o.groups > 0;
    if (!counts || o.heads % o.groups != 0 || (o.head_size == 0 && o.features % o.heads != 0)) {
      fail("TT-NN-22",
           "SelfAttention: " + std::to_string(o.features) + " features, " + std::to_string(o.heads) +
               " heads and " + std::to_string(o.groups) +
               " groups are not valid\n  rule: groups divide heads, and heads divide features unless "
               "head_size is given",
           loc);
    }
    if (o.head_size == 0) o.head_size = o.features / o.heads;
    return o;
  }
};

}  // namespace tinytorch::inline TT_BUILD
