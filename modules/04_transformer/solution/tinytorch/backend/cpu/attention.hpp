// Attention on the CPU: out = softmax(scale q k^T + mask) v, one query at a time, by the online softmax.
//
// Keys pass by once. A running maximum and sum are kept per query; when a larger score comes, what was added
// up so far is scaled down to it. No row of scores is stored, let alone a matrix: memory beyond the operands
// is O(1) per query. Sources: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018;
// Dao, "FlashAttention-2", 2023.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out, q [B, H, T, D], k, v [B, G, S, D] of one floating dtype, any strides; G divides H. lse [B, H, T], f32
// (f64 for f64): the logarithm of each query's sum of exponentials. A query that sees no key gives zeros.
TT_API void attention(const View& out, const View& lse, const View& q, const View& k, const View& v,
                      const AttentionParameters& parameters);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <cmath>
#include <limits>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// What dropout multiplies a query's probability of a key by: 0 or 1 / (1 - p), by AttentionParameters' rule.
struct AttentionDropout {
  const AttentionParameters& rules;
  int64_t line, S;  // the query's number among all [B, H, T]; the number of keys

  double of(int64_t key) const {
    if (rules.p == 0) return 1;
    const uint32_t word = philox(rules.seed, rules.dropout_block(line, key, S)).v[key % 4];
    return word >= rules.dropout_limit() ? rules.dropout_scale() : 0;
  }
};

template <class T>
T dot_product(const T* a, const T* b, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

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

TT_API void attention(const View& out, const View& lse, const View& q, const View& k, const View& v,
                      const AttentionParameters& parameters) {
  if (out.numel() == 0) return;
  dispatch_floating(q.dtype, [&]<class T>(T*) {  // 16-bit operands are computed in f32
    const ContiguousInput<T> queries(q), keys(k), values(v);
    ContiguousOutput<T> result(out);
    attend_all(result.data(), lse.as<T>(), queries.data(), keys.data(), values.data(), q.shape, k.shape,
               parameters);
    result.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
