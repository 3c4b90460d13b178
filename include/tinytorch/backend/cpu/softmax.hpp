// Softmax, log-softmax and log-sum-exp on the CPU, with gradients, along any dimension.
//
//   softmax(x)_i = exp(x_i - max) / sum_j exp(x_j - max)      log_softmax(x)_i = x_i - max - log(sum)
//   gradients:  softmax   dx = y (dy - sum(dy y))             log_softmax   dx = dy - exp(y) sum(dy)
//
// Subtracting the maximum prevents overflow of exp. A row of only -inf gives NaN, because its softmax is 0 /
// 0; its log-sum-exp is -inf. There are two loop nests: along a row if the dimension is contiguous, and down
// a strip of columns if adjacent elements belong to different rows. Short rows are transposed into such a
// strip.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// All operands have one shape and one floating dtype. out may be the memory of x, and dx that of dy or y.
TT_API void softmax(const View& out, const View& x, int dim);
TT_API void log_softmax(const View& out, const View& x, int dim);
TT_API void softmax_grad(const View& dx, const View& dy, const View& y, int dim);
TT_API void log_softmax_grad(const View& dx, const View& dy, const View& y, int dim);
// out = log(sum(exp(x))) over the dimensions d with reduced[d]; out has the other dimensions in order.
TT_API void logsumexp(const View& out, const View& x, const bool* reduced);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/backend/cpu/loops/transpose.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/scalar_math.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kStripWidth = 64;  // columns of a strip

// Sum of exp(x - shift) without storing the terms.
template <class T>
T row_sum_exp(const T* x, T shift, int64_t n) {
  return static_cast<T>(sum_pieces(n, [=](int64_t i, int64_t m) {
    T terms[kRunLength];
    TT_SIMD
    for (int64_t k = 0; k < m; ++k) terms[k] = math::exp<math::Range::below_zero>(x[i + k] - shift);
    return sum_run(terms, m);
  }));
}

// --- the four functions, along a row and down a strip ---
// row(out, a, b, n): one row of n contiguous values. strip(out, a, b, n, step, width): `width` adjacent
// columns of n values, `step` apart. a is x or dy; b is y for gradients.

template <class T>
void softmax_row(T* out, const T* x, const T*, int64_t n) {
  const T shift = max_of_row(x, n);
  const double sum = sum_pieces(n, [=](int64_t i, int64_t m) {
    TT_SIMD
    for (int64_t k = i; k < i + m; ++k) out[k] = math::exp<math::Range::below_zero>(x[k] - shift);
    return sum_run(out + i, m);
  });
  const T scale = T(1) / static_cast<T>(sum);
  parallel_over_row(n, [=](int64_t begin, int64_t end) {
    TT_SIMD
    for (int64_t i = begin; i < end; ++i) out[i] *= scale;
  });
}
template <class T>
void log_softmax_row(T* out, const T* x, const T*, int64_t n) {
  const T shift = max_of_row(x, n);
  const T log_sum = std::log(row_sum_exp(x, shift, n));
  parallel_over_row(n, [=](int64_t begin, int64_t end) {
    TT_SIMD
    for (int64_t i = begin; i < end; ++i) out[i] = x[i] - shift - log_sum;
  });
}
template <class T>
void softmax_grad_row(T* dx, const T* dy, const T* y, int64_t n) {
  const T dot =
      static_cast<T>(sum_pieces(n, [=](int64_t i, int64_t m) { return dot_run(dy + i, y + i, m); }));
  parallel_over_row(n, [=](int64_t begin, int64_t end) {
    TT_SIMD
    for (int64_t i = begin; i < end; ++i) dx[i] = y[i] * (dy[i] - dot);
  });
}
template <class T>
void log_softmax_grad_row(T* dx, const T* dy, const T* y, int64_t n) {
  const T sum = static_cast<T>(sum_pieces(n, [dy](int64_t i, int64_t m) { return sum_run(dy + i, m); }));
  parallel_over_row(n, [=](int64_t begin, int64_t end) {
    TT_SIMD
    for (int64_t i = begin; i < end; ++i) dx[i] = dy[i] - math::exp<math::Range::below_zero>(y[i]) * sum;
  });
}

template <class T>
void strip_max(T* best, const T* x, int64_t n, int64_t step, int64_t width) {
  for (int64_t j = 0; j < width; ++j) best[j] = x[j];
  for (int64_t i = 1; i < n; ++i) {
    const T* row = x + i * step;
    TT_SIMD
    for (int64_t j = 0; j < width; ++j)
      best[j] = ((row[j] > best[j]) | (row[j] != row[j])) ? row[j] : best[j];
  }
}

template <class T>
void softmax_strip(T* out, const T* x, const T*, int64_t n, int64_t step, int64_t width) {
  T shift[kStripWidth], sum[kStripWidth];
  strip_max(shift, x, n, step, width);
  sum_columns<kStripWidth>(sum, n, width, [&](int64_t i, T* part) {
    const T* from = x + i * step;
    T* to = out + i * step;
    TT_SIMD
    for (int64_t j = 0; j < width; ++j) {
      const T e = math::exp<math::Range::below_zero>(from[j] - shift[j]);
      to[j] = e;
      part[j] += e;
    }
  });
  for (int64_t j = 0; j < width; ++j) sum[j] = T(1) / sum[j];
  for (int64_t i = 0; i < n; ++i) {
    T* to = out + i * step;
    TT_SIMD
    for (int64_t j = 0; j < width; ++j) to[j] *= sum[j];
  }
}
template <class T>
void log_softmax_strip(T* out, const T* x, const T*, int64_t n, int64_t step, int64_t width) {
  T shift[kStripWidth], sum[kStripWidth];
  strip_max(shift, x, n, step, width);
  sum_columns<kStripWidth>(sum, n, width, [&](int64_t i, T* part) {
    const T* from = x + i * step;
    TT_SIMD
    for (int64_t j = 0; j < width; ++j) part[j] += math::exp<math::Range::below_zero>(from[j] - shift[j]);
  });
  TT_SIMD
  for (int64_t j = 0; j < width; ++j) sum[j] = math::log(sum[j]);
  for (int64_t i = 0; i < n; ++i) {
    const T* from = x + i * step;
    T* to = out + i * step;
    TT_SIMD
    for (int64_t j = 0; j < width; ++j) to[j] = from[j] - shift[j] - sum[j];
  }
}
template <class T>
void softmax_grad_strip(T* dx, const T* dy, const T* y, int64_t n, int64_t step, int64_t width) {
  T dot[kStripWidth];
  sum_columns<kStripWidth>(dot, n, width, [&](int64_t i, T* part) {
    TT_SIMD
    for (int64_t j = 0; j < width; ++j) part[j] += dy[i * step + j] * y[i * step + j];
  });
  for (int64_t i = 0; i < n; ++i) {
    TT_SIMD
    for (int64_t j = 0; j < width; ++j) dx[i * step + j] = y[i * step + j] * (dy[i * step + j] - dot[j]);
  }
}
template <class T>
void log_softmax_grad_strip(T* dx, const T* dy, const T* y, int64_t n, int64_t step, int64_t width) {
  T sum[kStripWidth];
  sum_columns<kStripWidth>(sum, n, width, [&](int64_t i, T* part) {
    TT_SIMD
    for (int64_t j = 0; j < width; ++j) part[j] += dy[i * step + j];
  });
  for (int64_t i = 0; i < n; ++i) {
    TT_SIMD
    for (int64_t j = 0; j < width; ++j) {
      dx[i * step + j] = dy[i * step + j] - math::exp<math::Range::below_zero>(y[i * step + j]) * sum[j];
    }
  }
}

// --- drivers ---

template <class T>
struct SoftmaxLoops {
  void (*row)(T* out, const T* a, const T* b, int64_t n);
  void (*strip)(T* out, const T* a, const T* b, int64_t n, int64_t step, int64_t width);
};

// Short contiguous rows [rows, n]: transposed into strips, kStripWidth rows at a time.
template <class T>
void run_short_rows(const SoftmaxLoops<T>& loops, T* out, const T* a, const T* b, int64_t rows, int64_t n) {
  parallel_for(rows, std::max(kStripWidth, 8192 / n / kStripWidth * kStripWidth),
               [&](int64_t begin, int64_t end) {
                 alignas(64) T tile[3][32 * kStripWidth];
                 for (int64_t r = begin; r < end; r += kStripWidth) {
                   const int64_t width = std::min(kStripWidth, end - r);
                   copy_transposed(tile[0], kStripWidth, a + r * n, n, n, width);
                   if (b) copy_transposed(tile[1], kStripWidth, b + r * n, n, n, width);
                   loops.strip(tile[2], tile[0], tile[1], n, kStripWidth, width);
                   copy_transposed(out + r * n, n, tile[2], kStripWidth, width, n);
                 }
               });
}

template <class T>
void run_softmax(const SoftmaxLoops<T>& loops, const View& out, const View& a, const View& b, int dim) {
  const ContiguousInput<T> in_a(a), in_b(b);
  ContiguousOutput<T> to(out);
  const int64_t n = out.shape[dim];
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < dim; ++d) outer *= out.shape[d];
  for (int d = dim + 1; d < out.rank(); ++d) inner *= out.shape[d];
  T* const result = to.data();
  const T *const x = in_a.data(), *const y = in_b.data();
  if (inner == 1 && n <= 32) {
    run_short_rows(loops, result, x, y, outer, n);
  } else if (inner == 1) {
    for_each_row(outer, n,
                 [&](int64_t r) { loops.row(result + r * n, x + r * n, y ? y + r * n : nullptr, n); });
  } else {
    const int64_t strips = ceil_div(inner, kStripWidth);
    parallel_for(
        outer * strips, std::max<int64_t>(1, 8192 / (n * kStripWidth)), [&](int64_t begin, int64_t end) {
          for (int64_t task = begin; task < end; ++task) {
            const int64_t column = task % strips * kStripWidth, at = task / strips * n * inner + column;
            loops.strip(result + at, x + at, y ? y + at : nullptr, n, inner,
                        std::min(kStripWidth, inner - column));
          }
        });
  }
  to.write_back();
}

TT_API void softmax(const View& out, const View& x, int dim) {
  if (out.numel() == 0) return;
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    run_softmax<T>({softmax_row<T>, softmax_strip<T>}, out, x, {}, dim);
  });
}
TT_API void log_softmax(const View& out, const View& x, int dim) {
  if (out.numel() == 0) return;
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    run_softmax<T>({log_softmax_row<T>, log_softmax_strip<T>}, out, x, {}, dim);
  });
}
TT_API void softmax_grad(const View& dx, const View& dy, const View& y, int dim) {
  if (dx.numel() == 0) return;
  dispatch_floating(dx.dtype, [&]<class T>(T*) {
    run_softmax<T>({softmax_grad_row<T>, softmax_grad_strip<T>}, dx, dy, y, dim);
  });
}
TT_API void log_softmax_grad(const View& dx, const View& dy, const View& y, int dim) {
  if (dx.numel() == 0) return;
  dispatch_floating(dx.dtype, [&]<class T>(T*) {
    run_softmax<T>({log_softmax_grad_row<T>, log_softmax_grad_strip<T>}, dx, dy, y, dim);
  });
}

// log(sum(exp(x))) of one row. If the maximum is infinite, it is the result; subtracting it would give NaN.
template <class T>
T row_logsumexp(const T* x, int64_t n) {
  const T best = n > 0 ? max_of_row(x, n) : -std::numeric_limits<T>::infinity();
  if (std::abs(best) == std::numeric_limits<T>::infinity()) return best;
  return best + std::log(row_sum_exp(x, best, n));
}

TT_API void logsumexp(const View& out, const View& x, const bool* reduced) {
  if (out.numel() == 0) return;
  View rows{x.data, x.dtype, {}, {}};  // x with the reduced dimensions last
  int64_t n = 1;
  for (int pass = 0; pass < 2; ++pass) {
    for (int d = 0; d < x.rank(); ++d) {
      if (reduced[d] != (pass == 1)) continue;
      rows.shape.push_back(x.shape[d]);
      rows.strides.push_back(x.strides[d]);
      if (reduced[d]) n *= x.shape[d];
    }
  }
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(rows);
    ContiguousOutput<T> to(out);
    for_each_row(out.numel(), n, [&](int64_t r) { to.data()[r] = row_logsumexp(in.data() + r * n, n); });
    to.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
