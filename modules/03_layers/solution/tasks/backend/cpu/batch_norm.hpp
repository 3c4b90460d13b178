// Batch normalization on the CPU, forward and backward. x is [N, C, S]: N samples, C channels, S positions
// (1, or H W of images); element (n, c, s) lies at (n C + c) S + s.
//
//   y = (x - mean) rstd w[c] + b[c],  rstd = 1 / sqrt(var + eps),  mean and var of channel c over N and S
//
// You write the three functions of one channel. Source: Ioffe and Szegedy, "Batch normalization", 2015.
//
// Task 3.9: moments_of_channel, normalize_channel, channel_grad. The given parts of this header are in
// modules/03_layers/frame/tinytorch/backend/cpu/batch_norm.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Mean, and mean of squared distances from it, of the N S values of channel c. Two passes: the mean of
// squares less the square of the mean would cancel where the mean is large.
template <class T>
Moments moments_of_channel(const T* x, const BatchShape& shape, int64_t c) {
  double mean = 0, var = 0;
  for (int64_t n = 0; n < shape.N; ++n) {
    for (int64_t s = 0; s < shape.S; ++s) mean += static_cast<double>(x[shape.at(n, c, s)]);
  }
  mean /= shape.count();
  for (int64_t n = 0; n < shape.N; ++n) {
    for (int64_t s = 0; s < shape.S; ++s) {
      const double distance = static_cast<double>(x[shape.at(n, c, s)]) - mean;
      var += distance * distance;
    }
  }
  return {mean, var / shape.count()};
}

// y = (x - mean) rstd weight + bias for all values of channel c.
template <class T>
void normalize_channel(T* y, const T* x, const BatchShape& shape, int64_t c, double mean, double rstd,
                       double weight, double bias) {
  for (int64_t n = 0; n < shape.N; ++n) {
    for (int64_t s = 0; s < shape.S; ++s) {
      const int64_t i = shape.at(n, c, s);
      y[i] = static_cast<T>((static_cast<double>(x[i]) - mean) * rstd * weight + bias);
    }
  }
}

// Computes dx of channel c if its mean and variance were computed from this batch, so that gradients also
// flow back through them. With h = (x - mean) rstd, and means over the channel:
//   dx = weight rstd (dy - mean(dy) - h mean(dy h))
template <class T>
void channel_grad(T* dx, const T* dy, const T* x, const BatchShape& shape, int64_t c, double mean,
                  double rstd, double weight) {
  double sum = 0, dot = 0;
  for (int64_t n = 0; n < shape.N; ++n) {
    for (int64_t s = 0; s < shape.S; ++s) {
      const int64_t i = shape.at(n, c, s);
      sum += static_cast<double>(dy[i]);
      dot += static_cast<double>(dy[i]) * (static_cast<double>(x[i]) - mean) * rstd;
    }
  }
  for (int64_t n = 0; n < shape.N; ++n) {
    for (int64_t s = 0; s < shape.S; ++s) {
      const int64_t i = shape.at(n, c, s);
      const double h = (static_cast<double>(x[i]) - mean) * rstd;
      dx[i] = static_cast<T>(weight * rstd *
                             (static_cast<double>(dy[i]) - sum / shape.count() - h * dot / shape.count()));
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
