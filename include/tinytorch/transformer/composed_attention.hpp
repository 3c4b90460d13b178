// Attention as a composition of ops: what the fused kernel computes, one readable line per step.
//
//   scores = scale q k^T     hidden keys -> -inf     out = dropout(softmax(scores)) v
//
// q [B, H, T, D], k and v [B, G, S, D] -> [B, H, T, D]. Queries are the last T of S positions. G divides H:
// query head h reads group h / (H / G), so that H / G heads share keys and values (Ainslie et al., "GQA",
// 2023). It stores all scores, [B, H, T, S]; tests compare the fused op with it.
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

// [B, G, S, D] -> [B, H, S, D], H = heads: each group as often as there are heads that read it, side by side;
// head h is group h / (H / G).
inline Tensor repeat_groups(const Tensor& x, int64_t heads, TT_LOC) {
  const int64_t B = x.size(0), G = x.size(1), S = x.size(2), D = x.size(3);
  if (G == heads) return x;
  return x.unsqueeze(2, loc).expand({B, G, heads / G, S, D}, loc).reshape({B, heads, S, D}, loc);
}

// True where query t must not see key s, bool [T, S]; an undefined tensor, {}, when neither causal nor a
// window (> 0) is asked for. Query t stands at position S - T + t, key s at s. Causal hides all keys of later
// positions; a window hides those that are `window` or more positions away, to either side.
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

// The formula above, step by step; a scale of 0 stands for 1 / sqrt(D), and dropout draws from
// default_generator(). Scores of hidden keys become -1e38, or -65504 in f16, its lowest number: finite, so
// that a query without a key (there are some where T > S) has probabilities to erase and not 0 / 0. Where
// T > S, those of hidden keys are filled with 0 after the softmax: the result of such a query is 0.
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
