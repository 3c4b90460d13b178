// Products with a weight stored as numbers and gaps (backend/sparse_view.hpp), for few rows of x.
//
// On a GPU this format is the fastest of the unstructured ones (backend/cuda/kernels/spmv_gaps.cuh). On the
// CPU a column follows from the one before, so an entry takes a dependent addition and a load from x: a
// bitmap (spmv.hpp) is several times as fast there.
#pragma once

#include <tinytorch/backend/cpu/spmv.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [M, N] = x [M, K] w^T for w [N, K]. Floating dtypes with any strides; values of w are f32, bf16, f16 or
// f64. Sums are f32, or f64 for values of f64. A result does not depend on the number of threads. Entries of
// the number 0 are not multiplied, so infinities of x do not meet them.
TT_API void spmv_gaps(const View& out, const View& x, const GapView& w);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <algorithm>

namespace tinytorch::inline TT_BUILD::backend::cpu {

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

TT_API void spmv_gaps(const View& out, const View& x, const GapView& w) {
  if (out.numel() == 0) return;
  const int64_t each =
      std::max<int64_t>(1, w.entries / std::max<int64_t>(1, w.rows) * std::min(x.shape[0], kSpmvRows));
  dispatch_values("spmv_gaps", w.dtype, [&]<class T, class S>(T*, S*) {
    multiply_by_rows<T>(out, x, ceil_div(kGapEntries, each),
                        [&](auto count, T* sums, int64_t n, const T* rows) {
                          dot_gaps<count.value, T, S>(sums, w, n, rows);
                        });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
