// Normalization of rows on the CPU: layer_norm and rms_norm, forward and backward.
//
//   layer_norm  y = (x - mean) rstd w + b,  rstd = 1 / sqrt(var + eps), var biased      rms_norm  the same
//   with mean 0 backward    g = dy w,  h = (x - mean) rstd:   dx = rstd (g - mean(g) - h mean(g h)),
//   dw = sum dy h,  db = sum dy
//
// The variance is the mean of squared distances, in a second pass over a row that is still in the L1 cache: a
// single pass would cancel. Backward reads dy and x once, and sums dw and db on the way. Source: Ba, Kiros, Hinton, "Layer normalization",
// 2016.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// x [..., C], weight and bias [C] or without data; mean and rstd [...] in the compute type (f32, or f64 for
// f64).
TT_API void layer_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                       const View& bias, double eps);
TT_API void rms_norm(const View& out, const View& rstd, const View& x, const View& weight, double eps);
// Any of dx, dweight, dbias may be without data. dx is the gradient plus `added`, where that has data: what reaches x on
// another way.
TT_API void layer_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy,
                            const View& x, const View& mean, const View& rstd, const View& weight,
                            const View& added = {});
TT_API void rms_norm_grad(const View& dx, const View& dweight, const View& dy, const View& x,
                          const View& rstd, const View& weight);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <cmath>
#include <tinytorch/backend/cpu/dense.hpp>
#include <tinytorch/backend/cpu/row_sums.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

template <class T>
void normalize_rows(T* out, T* mean, T* rstd, const T* x, const T* weight, const T* bias, int64_t rows,
                    int64_t C, double eps) {
  parallel_for(rows, std::max<int64_t>(1, 8192 / C), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* in = x + r * C;
      T* to = out + r * C;
      T center = 0;  // stays 0 for rms_norm, which passes no mean
      const double count = static_cast<double>(C);
      if (mean) {
        center =
            static_cast<T>(sum_pieces(C, [&](int64_t i, int64_t n) { return sum_run(in + i, n); }) / count);
        mean[r] = center;
      }
      const double var =
          sum_pieces(C, [&](int64_t i, int64_t n) { return square_run(in + i, center, n); }) / count;
      const T scale = static_cast<T>(1 / std::sqrt(var + eps));
      rstd[r] = scale;
      if (weight && bias) {
        TT_SIMD
        for (int64_t i = 0; i < C; ++i) to[i] = (in[i] - center) * scale * weight[i] + bias[i];
      } else if (weight) {
        TT_SIMD
        for (int64_t i = 0; i < C; ++i) to[i] = (in[i] - center) * scale * weight[i];
      } else {
        TT_SIMD
        for (int64_t i = 0; i < C; ++i) to[i] = (in[i] - center) * scale + (bias ? bias[i] : T(0));
      }
    }
  });
}

template <class T>
struct NormGrads {
  T *dx, *dweight, *dbias;
  const T *dy, *x, *mean, *rstd, *weight, *added;
  int64_t rows, C;
};

// One row: adds into dweight and dbias (sums of some rows), writes dx. h and g are scratch rows.
template <class T>
void norm_grad_row(const NormGrads<T>& a, int64_t r, T* dweight, T* dbias, T* h, T* g) {
  const int64_t C = a.C;
  const T *dy = a.dy + r * C, *x = a.x + r * C;
  const T center = a.mean ? a.mean[r] : T(0), scale = a.rstd[r];
  TT_SIMD
  for (int64_t i = 0; i < C; ++i) {
    const T d = dy[i], normalized = (x[i] - center) * scale;
    h[i] = normalized;
    dweight[i] += d * normalized;
    dbias[i] += d;
  }
  if (!a.dx) return;
  TT_SIMD
  for (int64_t i = 0; i < C; ++i) g[i] = dy[i] * (a.weight ? a.weight[i] : T(1));
  const double count = static_cast<double>(C);
  T mean_g = 0;
  if (a.mean)
    mean_g = static_cast<T>(sum_pieces(C, [&](int64_t i, int64_t n) { return sum_run(g + i, n); }) / count);
  const T mean_gh =
      static_cast<T>(sum_pieces(C, [&](int64_t i, int64_t n) { return dot_run(g + i, h + i, n); }) / count);
  T* dx = a.dx + r * C;
  if (const T* added = a.added ? a.added + r * C : nullptr) {
    TT_SIMD
    for (int64_t i = 0; i < C; ++i) dx[i] = added[i] + scale * (g[i] - mean_g - h[i] * mean_gh);
  } else {
    TT_SIMD
    for (int64_t i = 0; i < C; ++i) dx[i] = scale * (g[i] - mean_g - h[i] * mean_gh);
  }
}

template <class T>
void normalize_rows_grad(const NormGrads<T>& a) {
  const int64_t C = a.C;
  Scratch<double> sums(2 * C);
  sum_over_rows<T>(sums.data(), a.rows, 2 * C, 2 * C,
                   [&](int64_t r, T* part, T* room) { norm_grad_row(a, r, part, part + C, room, room + C); });
  for (int64_t i = 0; a.dweight && i < C; ++i) a.dweight[i] = static_cast<T>(sums.data()[i]);
  for (int64_t i = 0; a.dbias && i < C; ++i) a.dbias[i] = static_cast<T>(sums.data()[C + i]);
}

TT_API void layer_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                       const View& bias, double eps) {
  if (out.numel() == 0) return;
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const DenseInput<T> in(x), w(weight), b(bias);
    DenseOutput<T> to(out);
    const int64_t C = x.shape.back();
    normalize_rows<T>(to.data(), mean.as<T>(), rstd.as<T>(), in.data(), w.data(), b.data(), x.numel() / C, C,
                      eps);
    to.finish();
  });
}

TT_API void rms_norm(const View& out, const View& rstd, const View& x, const View& weight, double eps) {
  layer_norm(out, {}, rstd, x, weight, {}, eps);
}

TT_API void layer_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy,
                            const View& x, const View& mean, const View& rstd, const View& weight,
                            const View& added) {
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const DenseInput<T> grad(dy), in(x), w(weight), more(added);
    DenseOutput<T> to(dx), to_weight(dweight), to_bias(dbias);
    const int64_t C = x.shape.back();
    normalize_rows_grad<T>({to.data(), to_weight.data(), to_bias.data(), grad.data(), in.data(),
                            mean.as<const T>(), rstd.as<const T>(), w.data(), more.data(),
                            C == 0 ? 0 : x.numel() / C, C});
    to.finish();
    to_weight.finish();
    to_bias.finish();
  });
}

TT_API void rms_norm_grad(const View& dx, const View& dweight, const View& dy, const View& x,
                          const View& rstd, const View& weight) {
  layer_norm_grad(dx, dweight, {}, dy, x, {}, rstd, weight);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
