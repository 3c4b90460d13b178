// Normalization of rows on the CPU: layer_norm and rms_norm, forward and backward.
//
//   layer_norm  y = h w + b,  h = (x - mean) rstd,  rstd = 1 / sqrt(mean of (x - mean)^2 + eps)
//   rms_norm    y = h w,      h = x rstd,           rstd = 1 / sqrt(mean of x^2 + eps)
//
// You write the four functions of one row of C values; the rest brings rows of any dtype and layout to them.
// Sources: Ba, Kiros, Hinton, "Layer normalization", 2016; Zhang and Sennrich, "Root mean square layer
// normalization", 2019.
//
// Task 3.8: layer_norm_row, rms_norm_row, layer_norm_grad_row, rms_norm_grad_row. The given parts of this
// header are in modules/03_layers/frame/tinytorch/backend/cpu/norm.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

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

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
