// Attention as a composition of ops: the reference for the fused kernel, one readable line per step.
//
//   scores = scale q k^T     masked keys -> -inf     out = dropout(softmax(scores)) v
//
// q [B, H, T, D], k and v [B, G, S, D] -> [B, H, T, D]. The queries are at the last T of S positions. G
// divides H: query head h reads group h / (H / G), so H / G heads share keys and values (Ainslie et al.,
// "GQA", 2023). All scores [B, H, T, S] are stored; tests compare the fused op with this function.
// Source: Vaswani et al., "Attention is all you need", 2017.
#pragma once

#include <cmath>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

inline void require_attention_shapes(const Tensor& q, const Tensor& k, const Tensor& v, Loc loc) {
  const auto fits = [&](const Tensor& x) {
    return x.rank() == 4 && x.size(0) == q.size(0) && x.size(3) == q.size(3);
  };
  const bool same = q.rank() == 4 && fits(k) && k.shape() == v.shape();
  if (same && k.size(1) > 0 && q.size(1) % k.size(1) == 0) return;
  fail("TT-SHAPE-02",
       "attention: the shapes do not fit: q " + q.describe() + ", k " + k.describe() + ", v " + v.describe() +
           "\n  rule: q [B, H, T, D], k and v [B, G, S, D], G divides H",
       loc);
}

// [B, G, S, D] -> [B, H, S, D] with H = heads: each group is repeated H / G times, consecutively, so head h
// is group h / (H / G).
inline Tensor repeat_groups(const Tensor& x, int64_t heads, TT_LOC) {
  const int64_t B = x.size(0), G = x.size(1), S = x.size(2), D = x.size(3);
  if (G == heads) return x;
  return x.unsqueeze(2, loc).expand({B, G, heads / G, S, D}, loc).reshape({B, heads, S, D}, loc);
}

// The attention mask, bool [T, S]: true if query t must not attend to key s. Undefined, {}, if there is
// neither a causal mask nor a window > 0. Query t is at position S - T + t, key s at position s. The causal
// mask hides all keys at later positions; a window hides keys that are `window` or more positions away, on
// both sides.
inline Tensor hidden_keys(int64_t T, int64_t S, const AttentionOptions& options, Device device, TT_LOC) {
  if (!options.causal && options.window <= 0) return {};
  const Tensor queries = arange(S - T, S, 1, DType::i64, device, loc).unsqueeze(1, loc);  // positions [T, 1]
  const Tensor ahead = queries - arange(0, S, 1, DType::i64, device, loc);  // [T, S], < 0: later
  Tensor hidden = options.causal ? lt(ahead, scalar_like(0, ahead), loc) : Tensor();
  if (options.window > 0) {
    const Tensor far = abs(ahead, loc) >= options.window;
    hidden = hidden.defined() ? logical_or(hidden, far, loc) : far;
  }
  return hidden;
}

// The formula above, step by step. A scale of 0 means 1 / sqrt(D); dropout draws from default_generator().
// Masked scores become -1e38, or -65504 in f16, its lowest number. They are finite, so that a query without
// any key (possible if T > S) has no 0 / 0. If T > S, the probabilities of masked keys are set to 0 after the
// softmax, so the result of such a query is 0.
inline Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const AttentionOptions& options = {}, TT_LOC) {
  require_attention_shapes(q, k, v, loc);
  const int64_t H = q.size(1), T = q.size(2), S = k.size(2), D = q.size(3);
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(D));
  Tensor scores = matmul(q * scale, repeat_groups(k, H, loc).t(loc), loc);  // [B, H, T, S]

  const double never = q.dtype() == DType::f16 ? -65504.0 : -1e38;
  const Tensor hidden = hidden_keys(T, S, options, q.device(), loc);
  if (hidden.defined()) scores = masked_fill(scores, hidden, never, loc);
  Tensor p = softmax(scores, -1, loc);
  if (hidden.defined() && T > S) p = masked_fill(p, hidden, 0, loc);
  if (options.dropout > 0) p = dropout(p, options.dropout, default_generator(), loc);
  return matmul(p, repeat_groups(v, H, loc), loc);
}

}  // namespace tinytorch::inline TT_BUILD
