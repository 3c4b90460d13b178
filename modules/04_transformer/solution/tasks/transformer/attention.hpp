// SelfAttention: each token gets a weighted mean of the values of all tokens that it may attend to.
//
//   x [B, T, C] -> [B, T, C]
//
//   q, k, v = x W^T + b      one product: W [(H + 2G) D, C], rows of the H queries, the G keys, the G values
//   y = attention(rotate(q), rotate(k), v)       [B, H, T, D]
//   out = y W_out^T + b_out                      the H heads side by side: [B, T, H D]
//
// G = H is multi-head attention (Vaswani et al., 2017), G = 1 multi-query (Shazeer, 2019), between them
// grouped queries (Ainslie et al., 2023).
//
// Task 4.8: split_heads, join_heads, SelfAttention::forward. The given parts of this header are in
// modules/04_transformer/frame/tinytorch/transformer/attention.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD {

// x [B, T, N D] -> [B, N, T, D]: the values of a token are N heads of D, one after the other; each head
// becomes a sequence of its own. A reshape alone would mix tokens and heads.
inline Tensor split_heads(const Tensor& x, int64_t heads) {
  const int64_t B = x.size(0), T = x.size(1), D = x.size(2) / heads;
  return x.reshape({B, T, heads, D}).transpose(1, 2);
}

// The inverse of split_heads: y [B, N, T, D] -> [B, T, N D], the heads of a token side by side.
inline Tensor join_heads(const Tensor& y) {
  const int64_t B = y.size(0), N = y.size(1), T = y.size(2), D = y.size(3);
  return y.transpose(1, 2).reshape({B, T, N * D});
}

// x [B, T, C] -> [B, T, C]
//   split      qkv(x) holds H heads of queries, then G of keys, then G of values
//   positions  if (options.rotary): queries and keys, not values: options.rotary->turn(q, place.start)
//   cache      if (place.cache): append the rotated new keys and the values; attention uses all that
//              place.cache->append(options.layer, keys, values) returns
//   attention  scaled_dot_product_attention(q, keys, values, rules()): H / G heads share a group's keys
//   join       the heads side by side, then projection
inline Tensor SelfAttention::forward(const Tensor& x, const SequencePlace& place) {
  const Scope scope = forward_scope();
  const int64_t H = options.heads, G = options.groups;
  const Tensor all = split_heads(qkv(x), H + 2 * G);  // [B, H + 2G, T, D]
  Tensor q = slice(all, 1, 0, H);
  KeysAndValues kv{slice(all, 1, H, H + G), slice(all, 1, H + G)};
  if (options.rotary) {
    q = options.rotary->turn(q, place.start);
    kv.keys = options.rotary->turn(kv.keys, place.start);
  }
  if (place.cache) kv = place.cache->append(options.layer, kv.keys, kv.values);
  return projection(join_heads(scaled_dot_product_attention(q, kv.keys, kv.values, rules())));
}

}  // namespace tinytorch::inline TT_BUILD
