// Products with a weight stored as numbers and gaps (backend/sparse_view.hpp), for few rows of x.
//
// On a GPU this format is the fastest of the unstructured ones (backend/cuda/kernels/spmv_gaps.cuh). On the
// CPU a column follows from the one before, so an entry takes a dependent addition and a load from x: a
// bitmap (spmv.hpp) is several times as fast there.
#pragma once

#include <tinytorch/backend/sparse_view.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [M, N] = x [M, K] w^T for w [N, K]. Floating dtypes with any strides; values of w are f32, bf16, f16 or
// f64. Sums are f32, or f64 for values of f64. A result does not depend on the number of threads. Entries of
// the number 0 are not multiplied, so infinities of x do not meet them.
TT_API void spmv_gaps(const View& out, const View& x, const GapView& w);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <algorithm>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/parallel.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kGapRows = 4;         // rows of x for which an entry is decoded once
inline constexpr int64_t kGapEntries = 16384;  // entries of w that are worth a thread

// y[m] = row n of w times x[m * K ...] for kM rows of x, in the compute type T. S: the type of the values.
template <int64_t kM, class T, class S>
void dot_gaps(T* y, const GapView& w, int64_t n, const T* x) {
  const auto* const values = static_cast<const S*>(w.values);
  T total[kM] = {};
  int64_t column = -1;
  for (int64_t i = w.offsets[n]; i < w.offsets[n + 1]; ++i) {
    column += w.gap(i) + 1;
    const T v = convert<T>(values[i]);
    if (v == T{0}) continue;
    for (int64_t m = 0; m < kM; ++m) total[m] = math::multiply_add(v, x[m * w.columns + column], total[m]);
  }
  std::copy_n(total, kM, y);
}

template <class T, class S>
void spmv_gaps_as(const View& out, const View& x, const GapView& w) {
  const int64_t M = x.shape[0], N = w.rows;
  const ContiguousInput<T> rows(x);
  ContiguousOutput<T> y(out);
  const int64_t each = std::max<int64_t>(1, w.entries / std::max<int64_t>(1, N) * std::min(M, kGapRows));
  parallel_for(N, ceil_div(kGapEntries, each), [&](int64_t begin, int64_t end) {
    int64_t m = 0;
    const auto run = [&](auto count) {
      for (int64_t n = begin; n < end; ++n) {
        T sums[count.value];
        dot_gaps<count.value, T, S>(sums, w, n, rows.data() + m * w.columns);
        for (int64_t i = 0; i < count.value; ++i) y.data()[(m + i) * N + n] = sums[i];
      }
    };
    for (; m + kGapRows <= M; m += kGapRows) run(std::integral_constant<int64_t, kGapRows>{});
    for (; m < M; ++m) run(std::integral_constant<int64_t, 1>{});
  });
  y.write_back();
}

TT_API void spmv_gaps(const View& out, const View& x, const GapView& w) {
  if (out.numel() == 0) return;
  switch (w.dtype) {
    case DType::f32:
      return spmv_gaps_as<float, float>(out, x, w);
    case DType::bf16:
      return spmv_gaps_as<float, BFloat16>(out, x, w);
    case DType::f16:
      return spmv_gaps_as<float, Half>(out, x, w);
    case DType::f64:
      return spmv_gaps_as<double, double>(out, x, w);
    default:
      fail("TT-DTYPE-02", std::string("spmv_gaps: the values must be floating, got ") + name_of(w.dtype));
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
