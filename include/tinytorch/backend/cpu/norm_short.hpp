// Normalization of short rows on the CPU. A loop over a row of three values costs more in overhead than in
// arithmetic. So 128 rows are transposed into columns, and loops run across rows, one row in each vector
// lane.
#pragma once

#include <algorithm>
#include <cmath>
#include <tinytorch/backend/cpu/loops/row_sums.hpp>
#include <tinytorch/backend/cpu/loops/transpose.hpp>
#include <tinytorch/core/scalar_math.hpp>
#include <tinytorch/core/shape.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Operands of layer_norm and layer_norm_grad (norm.hpp): `rows` rows of C values; null pointers for absent
// operands.
template <class T>
struct NormRows {
  T *out, *mean, *rstd;  // mean: null for rms_norm
  const T *x, *weight, *bias;
  int64_t rows, C;
  double eps;
};
template <class T>
struct NormGrads {
  T *dx, *dweight, *dbias;
  const T *dy, *x, *mean, *rstd, *weight, *added;
  int64_t rows, C;
};

inline constexpr int64_t kShortNorm = 32;       // length from which on a row is processed alone
inline constexpr int64_t kNormsTogether = 128;  // rows that are transposed together

// Transposes the rows from `first` on into columns [C][kNormsTogether].
template <class T>
void columns_of_rows(T* columns, const T* x, int64_t first, int64_t rows, int64_t C) {
  copy_transposed(columns, kNormsTogether, x + first * C, C, C, rows);
}

// Normalizes n rows from `first` on. columns [C][kNormsTogether] is scratch memory.
template <class T>
void normalize_together(const NormRows<T>& a, int64_t first, int64_t n, T* columns) {
  constexpr int64_t kN = kNormsTogether;
  const T count = static_cast<T>(a.C);
  T center[kN] = {}, square[kN] = {};
  columns_of_rows(columns, a.x, first, n, a.C);
  if (a.mean) {
    for (int64_t i = 0; i < a.C; ++i) {
      TT_SIMD
      for (int64_t j = 0; j < n; ++j) center[j] += columns[i * kN + j];
    }
    for (int64_t j = 0; j < n; ++j) a.mean[first + j] = center[j] /= count;
  }
  for (int64_t i = 0; i < a.C; ++i) {
    TT_SIMD
    for (int64_t j = 0; j < n; ++j) {
      const T distance = columns[i * kN + j] -= center[j];
      square[j] = math::multiply_add(distance, distance, square[j]);
    }
  }
  T* const scale = a.rstd + first;
  TT_SIMD
  for (int64_t j = 0; j < n; ++j)
    scale[j] = static_cast<T>(1 / std::sqrt(static_cast<double>(square[j] / count) + a.eps));
  for (int64_t i = 0; i < a.C; ++i) {
    const T weight = a.weight ? a.weight[i] : T(1), bias = a.bias ? a.bias[i] : T(0);
    TT_SIMD
    for (int64_t j = 0; j < n; ++j)
      columns[i * kN + j] = math::multiply_add(columns[i * kN + j] * scale[j], weight, bias);
  }
  copy_transposed(a.out + first * a.C, a.C, columns, kN, n, a.C);
}

template <class T>
void normalize_short_rows(const NormRows<T>& a) {
  const int64_t groups = ceil_div(a.rows, kNormsTogether);
  parallel_for(groups, grain_of(kNormsTogether * a.C), [&](int64_t begin, int64_t end) {
    alignas(64) T columns[kShortNorm * kNormsTogether];
    for (int64_t group = begin; group < end; ++group) {
      const int64_t first = group * kNormsTogether;
      normalize_together(a, first, std::min(kNormsTogether, a.rows - first), columns);
    }
  });
}

// Backward of n rows from `first` on: adds to dweight [C] and dbias [C], writes dx. g and h
// [C][kNormsTogether] are scratch memory.
template <class T>
void norm_grad_together(const NormGrads<T>& a, int64_t first, int64_t n, T* dweight, T* dbias, T* g, T* h) {
  constexpr int64_t kN = kNormsTogether;
  const T count = static_cast<T>(a.C), *const scale = a.rstd + first;
  T mean_g[kN] = {}, mean_gh[kN] = {};
  columns_of_rows(g, a.dy, first, n, a.C);
  columns_of_rows(h, a.x, first, n, a.C);
  for (int64_t i = 0; i < a.C; ++i) {
    const T weight = a.weight ? a.weight[i] : T(1);
    T *const gi = g + i * kN, *const hi = h + i * kN;
    TT_SIMD
    for (int64_t j = 0; j < n; ++j) hi[j] = (hi[j] - (a.mean ? a.mean[first + j] : T(0))) * scale[j];
    dweight[i] += dot_run(gi, hi, n);
    dbias[i] += sum_run(gi, n);
    TT_SIMD
    for (int64_t j = 0; j < n; ++j) {
      gi[j] *= weight;
      mean_g[j] += gi[j];
      mean_gh[j] += gi[j] * hi[j];
    }
  }
  if (!a.dx) return;
  for (int64_t j = 0; j < n; ++j) {
    mean_g[j] = a.mean ? mean_g[j] / count : T(0);
    mean_gh[j] /= count;
  }
  for (int64_t i = 0; i < a.C; ++i) {
    TT_SIMD
    for (int64_t j = 0; j < n; ++j) {
      const int64_t at = i * kN + j;
      g[at] = scale[j] * (g[at] - mean_g[j] - h[at] * mean_gh[j]);
    }
  }
  T* const dx = a.dx + first * a.C;
  if (!a.added) return copy_transposed(dx, a.C, g, kN, n, a.C);
  copy_transposed(h, a.C, g, kN, n, a.C);
  TT_SIMD
  for (int64_t i = 0; i < n * a.C; ++i) dx[i] = a.added[first * a.C + i] + h[i];
}

// sums [2 C] = dweight [C], then dbias [C].
template <class T>
void normalize_short_rows_grad(const NormGrads<T>& a, double* sums) {
  const int64_t scratch = a.C * kNormsTogether;
  sum_over_rows<T>(sums, ceil_div(a.rows, kNormsTogether), 2 * a.C, 2 * scratch,
                   [&](int64_t group, T* part, T* g) {
                     const int64_t first = group * kNormsTogether;
                     norm_grad_together(a, first, std::min(kNormsTogether, a.rows - first), part, part + a.C,
                                        g, g + scratch);
                   });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
