// Normalization of rows on the CPU: layer_norm and rms_norm, forward and backward.
//
//   layer_norm  y = h w + b,  h = (x - mean) rstd,  rstd = 1 / sqrt(mean of (x - mean)^2 + eps)
//   rms_norm    y = h w,      h = x rstd,           rstd = 1 / sqrt(mean of x^2 + eps)
//
// You write the four functions of one row of C values; the rest brings rows of any dtype and layout to them.
// Sources: Ba, Kiros, Hinton, "Layer normalization", 2016; Zhang and Sennrich, "Root mean square layer
// normalization", 2019.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// x [..., C], weight and bias [C] or without data; mean and rstd [...] in the compute type (f32, or f64 for
// f64). Without a mean: rms_norm.
TT_API void layer_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                       const View& bias, double eps);
TT_API void rms_norm(const View& out, const View& rstd, const View& x, const View& weight, double eps);
// Any of dx, dweight, dbias may be without data. dx is the gradient plus `added`, where that has data: what
// reaches x on another way.
TT_API void layer_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy,
                            const View& x, const View& mean, const View& rstd, const View& weight,
                            const View& added = {});
TT_API void rms_norm_grad(const View& dx, const View& dweight, const View& dy, const View& x,
                          const View& rstd, const View& weight);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <cmath>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- One row. T is float or double; sum in double. weight and bias may be null: ones and zeros.
// ----------------

// What the backward pass needs of a row's forward pass.
struct RowStatistics {
  double mean, rstd;
};

// Writes y and returns mean and rstd. Two passes: the mean, then the squared distances from it. The mean of
// squares less the square of the mean would be one pass, and of a row near 1000 it would keep no digit of the
// variance.
template <class T>
RowStatistics layer_norm_row(T* y, const T* x, const T* weight, const T* bias, int64_t C, double eps) {
  const double count = static_cast<double>(C);
  double mean = 0, variance = 0;
  for (int64_t i = 0; i < C; ++i) mean += static_cast<double>(x[i]) / count;
  for (int64_t i = 0; i < C; ++i) {
    const double distance = static_cast<double>(x[i]) - mean;
    variance += distance * distance / count;
  }
  const double rstd = 1 / std::sqrt(variance + eps);
  for (int64_t i = 0; i < C; ++i) {
    const T h = static_cast<T>((static_cast<double>(x[i]) - mean) * rstd);
    y[i] = h * (weight ? weight[i] : T(1)) + (bias ? bias[i] : T(0));
  }
  return {mean, rstd};
}

// Writes y and returns rstd.
template <class T>
double rms_norm_row(T* y, const T* x, const T* weight, int64_t C, double eps) {
  double square = 0;
  for (int64_t i = 0; i < C; ++i) square += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const double rstd = 1 / std::sqrt(square / static_cast<double>(C) + eps);
  for (int64_t i = 0; i < C; ++i)
    y[i] = static_cast<T>(static_cast<double>(x[i]) * rstd) * (weight ? weight[i] : T(1));
  return rstd;
}

// With g = dy w and h = (x - mean) rstd:  dx = rstd (g - mean(g) - h mean(g h)). The two means are there
// because mean and rstd depend on every x of the row. Adds dy h to dweight [C] and dy to dbias [C], which all
// rows share. dx may be null.
template <class T>
void layer_norm_grad_row(T* dx, double* dweight, double* dbias, const T* dy, const T* x, RowStatistics row,
                         const T* weight, int64_t C) {
  double sum_g = 0, sum_gh = 0;
  for (int64_t i = 0; i < C; ++i) {
    const double d = static_cast<double>(dy[i]), h = (static_cast<double>(x[i]) - row.mean) * row.rstd;
    const double g = weight ? d * static_cast<double>(weight[i]) : d;
    dweight[i] += d * h;
    dbias[i] += d;
    sum_g += g;
    sum_gh += g * h;
  }
  const double count = static_cast<double>(C);
  for (int64_t i = 0; dx && i < C; ++i) {
    const double d = static_cast<double>(dy[i]), h = (static_cast<double>(x[i]) - row.mean) * row.rstd;
    const double g = weight ? d * static_cast<double>(weight[i]) : d;
    dx[i] = static_cast<T>(row.rstd * (g - sum_g / count - h * sum_gh / count));
  }
}

// With g = dy w and h = x rstd:  dx = rstd (g - h mean(g h)). Adds dy h to dweight. dx may be null.
template <class T>
void rms_norm_grad_row(T* dx, double* dweight, const T* dy, const T* x, double rstd, const T* weight,
                       int64_t C) {
  double sum_gh = 0;
  for (int64_t i = 0; i < C; ++i) {
    const double d = static_cast<double>(dy[i]), h = static_cast<double>(x[i]) * rstd;
    dweight[i] += d * h;
    sum_gh += (weight ? d * static_cast<double>(weight[i]) : d) * h;
  }
  for (int64_t i = 0; dx && i < C; ++i) {
    const double d = static_cast<double>(dy[i]), h = static_cast<double>(x[i]) * rstd;
    const double g = weight ? d * static_cast<double>(weight[i]) : d;
    dx[i] = static_cast<T>(rstd * (g - h * sum_gh / static_cast<double>(C)));
  }
}

// --- Given: all rows
// -------------------------------------------------------------------------------------------

TT_API void layer_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                       const View& bias, double eps) {
  if (out.numel() == 0) return;
  const int64_t C = x.shape.back();
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x), w(weight), b(bias);
    ContiguousOutput<T> to(out);
    for (int64_t r = 0; r < x.numel() / C; ++r) {
      T* const y = to.data() + r * C;
      const T* const row = in.data() + r * C;
      if (!mean.data) {
        rstd.as<T>()[r] = static_cast<T>(rms_norm_row(y, row, w.data(), C, eps));
        continue;
      }
      const RowStatistics found = layer_norm_row(y, row, w.data(), b.data(), C, eps);
      mean.as<T>()[r] = static_cast<T>(found.mean);
      rstd.as<T>()[r] = static_cast<T>(found.rstd);
    }
    to.write_back();
  });
}
TT_API void rms_norm(const View& out, const View& rstd, const View& x, const View& weight, double eps) {
  layer_norm(out, {}, rstd, x, weight, {}, eps);
}

TT_API void layer_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy,
                            const View& x, const View& mean, const View& rstd, const View& weight,
                            const View& added) {
  const int64_t C = x.shape.back(), rows = C == 0 ? 0 : x.numel() / C;
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> grad(dy), in(x), w(weight), more(added);
    ContiguousOutput<T> to(dx);
    std::vector<double> weight_sum(static_cast<size_t>(C)), bias_sum(weight_sum.size());
    for (int64_t r = 0; r < rows; ++r) {
      T* const result = dx.data ? to.data() + r * C : nullptr;
      const T *const d = grad.data() + r * C, *const row = in.data() + r * C;
      const double scale = static_cast<double>(rstd.as<const T>()[r]);
      if (mean.data) {
        layer_norm_grad_row(result, weight_sum.data(), bias_sum.data(), d, row,
                            {static_cast<double>(mean.as<const T>()[r]), scale}, w.data(), C);
      } else {
        rms_norm_grad_row(result, weight_sum.data(), d, row, scale, w.data(), C);
      }
      for (int64_t i = 0; result && more.data() && i < C; ++i) result[i] += more.data()[r * C + i];
    }
    if (dx.data) to.write_back();
    if (dweight.data) copy(dweight, {weight_sum.data(), DType::f64, {C}, {1}});
    if (dbias.data) copy(dbias, {bias_sum.data(), DType::f64, {C}, {1}});
  });
}
TT_API void rms_norm_grad(const View& dx, const View& dweight, const View& dy, const View& x,
                          const View& rstd, const View& weight) {
  layer_norm_grad(dx, dweight, {}, dy, x, {}, rstd, weight);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
