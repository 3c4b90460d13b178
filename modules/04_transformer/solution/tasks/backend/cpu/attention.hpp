// Attention on the CPU: out = softmax(scale q k^T + mask) v, one query at a time, by the online softmax.
//
// Keys pass by once. A running maximum and sum are kept per query; when a larger score comes, what was added
// up so far is scaled down to it. No row of scores is stored, let alone a matrix: memory beyond the operands
// is O(1) per query. Sources: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018;
// Dao, "FlashAttention-2", 2023.
//
// Task 4.6: attend, attend_all. The given parts of this header are in
// modules/04_transformer/frame/tinytorch/backend/cpu/attention.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// One query q [D] against keys k [S, D] and values v [S, D], of which it sees those from seen.first to below
// seen.last:
//
//   score_j = scale q . k_j     p_j = e^score_j / sum of e^score     out [D] = sum of p_j dropout.of(j) v_j
//
// Returns the logarithm of the sum of e^score. A query that sees no key: out is zero, and the result
// -infinity.
//
// One pass: `top`, the largest score so far; `sum`, of e^(score - top); `out`, of e^(score - top) v. With a
// larger score, first multiply sum and out by e^(old top - new top). Divide by the sum at the end. Dropout
// thins out what is added to `out`; the sum is of all scores.
template <class T>
T attend(T* out, const T* q, const T* k, const T* v, IndexRange seen, int64_t D, T scale,
         const AttentionDropout& dropout) {
  T top = -std::numeric_limits<T>::infinity(), sum = 0;
  std::fill(out, out + D, T(0));
  for (int64_t j = seen.first; j < seen.last; ++j) {
    const T score = scale * dot_product(q, k + j * D, D);
    if (score > top) {
      const T factor = std::exp(top - score);  // 0 at the first key
      sum *= factor;
      for (int64_t d = 0; d < D; ++d) out[d] *= factor;
      top = score;
    }
    const T p = std::exp(score - top);
    const T kept = p * static_cast<T>(dropout.of(j));
    sum += p;
    for (int64_t d = 0; d < D; ++d) out[d] += kept * v[j * D + d];
  }
  if (seen.first >= seen.last) return top;
  for (int64_t d = 0; d < D; ++d) out[d] /= sum;
  return top + std::log(sum);
}

// All queries of all heads: arrays [B, H, T, D], [B, G, S, D] and [B, H, T], contiguous. Query t of batch b
// sees the keys rules.keys_of(t, T, S, b). Query head h reads group h / (H / G) of the keys and values.
template <class T>
void attend_all(T* out, T* lse, const T* q, const T* k, const T* v, const Shape& queries, const Shape& keys,
                const AttentionParameters& rules) {
  const int64_t H = queries[1], rows = queries[2], D = queries[3], G = keys[1], S = keys[2];
  parallel_for(queries[0] * H * rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {  // [B, H, T] in one
      const int64_t t = line % rows, h = line / rows % H, b = line / rows / H;
      const int64_t group = b * G + h / (H / G);
      lse[line] = attend(out + line * D, q + line * D, k + group * S * D, v + group * S * D,
                         rules.keys_of(t, rows, S, b), D, static_cast<T>(rules.scale),
                         AttentionDropout{rules, line, S});
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
