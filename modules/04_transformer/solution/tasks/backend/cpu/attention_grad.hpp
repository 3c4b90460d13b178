// Gradients of attention on the CPU, from out and the logarithms of the sums (lse). Probabilities were not
// kept: each is formed anew, p = e^(score - lse).
//
// A group of heads that share keys is one task, so that no two threads add to one gradient. Source: Dao,
// "FlashAttention-2", 2023.
//
// Task 4.7: attend_grad, group_grad. The given parts of this header are in
// modules/04_transformer/frame/tinytorch/backend/cpu/attention_grad.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The gradients of one query q [D], whose result was out [D] with the logarithm `lse`, when the gradient of
// out is dout [D]. k, v, dk, dv [S, D]; it saw the keys from seen.first to below seen.last.
//
//   p_j = e^(scale q . k_j - lse)          m_j = dropout.of(j): what p_j was multiplied by
//   dv_j += p_j m_j dout                   (added: other queries have added theirs)
//   dp_j  = m_j dout . v_j
//   ds_j  = scale p_j (dp_j - dout . out)  softmax's gradient: dout . out is the sum of p_j dp_j over all j
//   dk_j += ds_j q
//   dq    = sum of ds_j k_j                (this query's alone: written; zero when it saw no key)
template <class T>
void attend_grad(T* dq, T* dk, T* dv, const T* dout, const T* q, const T* k, const T* v, const T* out, T lse,
                 IndexRange seen, int64_t D, T scale, const AttentionDropout& dropout) {
  const T delta = dot_product(dout, out, D);
  std::fill(dq, dq + D, T(0));
  for (int64_t j = seen.first; j < seen.last; ++j) {
    const T p = std::exp(scale * dot_product(q, k + j * D, D) - lse), m = static_cast<T>(dropout.of(j));
    const T ds = scale * p * (m * dot_product(dout, v + j * D, D) - delta);
    for (int64_t d = 0; d < D; ++d) {
      dv[j * D + d] += p * m * dout[d];
      dk[j * D + d] += ds * q[d];
      dq[d] += ds * k[j * D + d];
    }
  }
}

// One group: zero dk and dv [S, D] of group g of batch b, then add the queries of all H / G heads that read
// it.
template <class T>
void group_grad(const AttentionArrays<T>& x, int64_t b, int64_t g, const Shape& queries, const Shape& keys,
                const AttentionParameters& rules) {
  const int64_t H = queries[1], rows = queries[2], D = queries[3], G = keys[1], S = keys[2];
  const int64_t group = (b * G + g) * S * D;
  std::fill(x.dk + group, x.dk + group + S * D, T(0));
  std::fill(x.dv + group, x.dv + group + S * D, T(0));
  for (int64_t h = g * (H / G); h < (g + 1) * (H / G); ++h) {
    for (int64_t t = 0; t < rows; ++t) {
      const int64_t line = (b * H + h) * rows + t, at = line * D;
      attend_grad(x.dq + at, x.dk + group, x.dv + group, x.dout + at, x.q + at, x.k + group, x.v + group,
                  x.out + at, x.lse[line], rules.keys_of(t, rows, S, b), D, static_cast<T>(rules.scale),
                  AttentionDropout{rules, line, S});
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
