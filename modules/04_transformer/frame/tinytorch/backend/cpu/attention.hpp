// Attention on the CPU: out = softmax(scale q k^T + mask) v, one query at a time, by the online softmax.
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.6.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out, q [B, H, T, D], k, v [B, G, S, D] of one floating dtype, any strides; G divides H. lse [B, H, T], f32
// (f64 for f64): the logarithm of each query's sum of exponentials. A query that sees no key gives zeros.
TT_API void attention(const View& out, const View& lse, const View& q, const View& k, const View& v,
                      const AttentionParameters& parameters);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS) || defined(TINYTORCH_TASK)
#include <cmath>
#include <limits>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The factor by which dropout multiplies a query's probability of a key: 0 or 1 / (1 - p), by the rule of
// AttentionParameters.
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

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/attention.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

TT_API void attention(const View& out, const View& lse, const View& q, const View& k, const View& v,
                      const AttentionParameters& parameters) {
  if (out.numel() == 0) return;
  dispatch_floating(q.dtype, [&]<class T>(T*) {  // 16-bit operands are computed in f32
    const DenseInput<T> queries(q), keys(k), values(v);
    DenseOutput<T> result(out);
    attend_all(result.data(), lse.as<T>(), queries.data(), keys.data(), values.data(), q.shape, k.shape,
               parameters);
    result.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
