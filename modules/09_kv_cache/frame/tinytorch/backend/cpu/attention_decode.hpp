// Attention of a few new tokens to all tokens of a cache: one pass over the cached keys and values.
//
// The frame of a course header: it has the given parts, and includes the functions of tasks 9.2 and 9.5.
#pragma once

#include <tinytorch/backend/kv_view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out, q [N, H, D] of one floating dtype, with any strides; G divides H. The row of a sequence's token at
// position t sees the tokens that are at most at t, less than `window` positions away if window > 0, and
// still in the cache. `kv` already holds the step's own tokens. A cache of f64 takes queries of f64 only, and
// the others take the other dtypes; sums are f64 or f32. A row that sees no token gives zeros.
TT_API void attention_decode(const View& out, const View& q, const KvView& kv, double scale, int64_t window);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS) || defined(TINYTORCH_TASK)
#include <cmath>
#include <limits>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The running softmax of one query row: the largest score so far, and the sum of e^(score - largest). The
// values with these weights are summed in the row's result.
template <class T>
struct RunningSoftmax {
  T largest = -std::numeric_limits<T>::infinity(), weight = 0;
};

// Row number `row` of the keys or values (KvView::row_of) as D numbers. K is the type of their memory;
// integers are multiplied by the scale of the row.
template <class K, class T>
void read_cached_row(T* out, const void* pool, const void* scales, int64_t row, int64_t D) {
  const K* const x = static_cast<const K*>(pool) + row * D;
  for (int64_t d = 0; d < D; ++d) out[d] = convert<T>(x[d]);
  if constexpr (std::is_same_v<K, int8_t>) {
    for (int64_t d = 0; d < D; ++d) out[d] *= static_cast<T>(static_cast<const float*>(scales)[row]);
  }
}

template <class T>
T dot_of(const T* a, const T* b, int64_t D) {
  T sum = 0;
  for (int64_t d = 0; d < D; ++d) sum += a[d] * b[d];
  return sum;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/attention_decode.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The rows of a sequence, with keys of their own for each head or shared by several.
template <class K, class T>
void decode_sequence(T* out, const T* q, const KvView& kv, int64_t b, int64_t shared, T scale,
                     int64_t window) {
  for (int64_t g = 0; g < kv.groups; ++g) {
    if (shared > 1) {
      attend_group<K>(out, q, kv, b, g, shared, scale, window);
      continue;
    }
    for (int64_t n = kv.first_row[b]; n < kv.first_row[b + 1]; ++n) {
      const int64_t at = (n * kv.groups + g) * kv.head_size;
      attend_row<K>(out + at, q + at, kv, b, g, n, scale, window);
    }
  }
}

TT_API void attention_decode(const View& out, const View& q, const KvView& kv, double scale, int64_t window) {
  if (out.numel() == 0) return;
  if (!is_floating(q.dtype) || (q.dtype == DType::f64) != (kv.dtype == DType::f64)) {
    fail("TT-DTYPE-02", std::string("attention_decode: queries of ") + name_of(q.dtype) +
                            " do not fit a cache of " + name_of(kv.dtype) +
                            "\n  rule: f64 with f64, other floating dtypes with f32, bf16, f16 and i8");
  }
  if (kv.format != KvFormat::of_dtype) {
    fail("TT-DTYPE-02", std::string("attention_decode: a cache of ") + name_of(kv.format) +
                            " is not part of this course's kernels\n  hint: use a cache of f32, f64, bf16, "
                            "f16 or i8");
  }
  const int64_t shared = q.shape[1] / kv.groups;
  const auto as = [&]<class T, class K>(T*, K*) {
    const ContiguousInput<T> queries(q);
    ContiguousOutput<T> result(out);
    parallel_for(kv.batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b)
        decode_sequence<K>(result.data(), queries.data(), kv, b, shared, static_cast<T>(scale), window);
    });
    result.write_back();
  };
  float* const single = nullptr;
  if (kv.dtype == DType::f64) return as(static_cast<double*>(nullptr), static_cast<double*>(nullptr));
  if (kv.dtype == DType::bf16) return as(single, static_cast<BFloat16*>(nullptr));
  if (kv.dtype == DType::f16) return as(single, static_cast<Half*>(nullptr));
  if (kv.dtype == DType::i8) return as(single, static_cast<int8_t*>(nullptr));
  as(single, single);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
