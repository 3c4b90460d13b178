// Batch normalization on the CPU, forward and backward. x is [N, C, S]: N samples, C channels, S positions
// (1, or H W of images); element (n, c, s) lies at (n C + c) S + s.
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.9.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// x [N, C, ...]; mean, var [C] in the compute type (f32, or f64 for f64); var biased.
TT_API void channel_moments(const View& mean, const View& var, const View& x);
// out = (x - mean) / sqrt(var + eps) w + b; weight, bias [C] or without data.
TT_API void batch_norm(const View& out, const View& x, const View& mean, const View& var, const View& weight,
                       const View& bias, double eps);
// of_batch: mean and var were computed from x; then gmean, gvar are gradients flowing into them (or without
// data).
TT_API void batch_norm_grad(const BatchNormGrads& out, const View& dy, const View& x, const View& mean,
                            const View& var, const View& weight, double eps, bool of_batch, const View& gmean,
                            const View& gvar);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND) || defined(TINYTORCH_TASK)
#include <cmath>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

struct BatchShape {
  int64_t N, C, S = 1;
  int64_t at(int64_t n, int64_t c, int64_t s) const { return (n * C + c) * S + s; }
  double count() const { return static_cast<double>(N * S); }  // values of one channel
};
inline BatchShape batch_shape(const View& x) {
  BatchShape shape{x.shape[0], x.shape[1]};
  for (int d = 2; d < x.rank(); ++d) shape.S *= x.shape[d];
  return shape;
}

// --- One channel c. T is float or double; sums in double.
// ------------------------------------------------------

struct Moments {
  double mean, var;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/batch_norm.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- Given: all channels
// ---------------------------------------------------------------------------------------

// Element c of a vector of any floating dtype, or `otherwise` where there is no vector.
inline double element(const View& v, int64_t c, double otherwise) {
  if (!v.data) return otherwise;
  double value = 0;
  dispatch(v.dtype, [&]<class T>(T*) { value = convert<double>(v.as<const T>()[c * v.strides[0]]); });
  return value;
}
inline void put_channel(const View& v, int64_t c, double value) {
  if (!v.data) return;
  dispatch(v.dtype, [&]<class T>(T*) { v.as<T>()[c * v.strides[0]] = convert<T>(value); });
}

TT_API void channel_moments(const View& mean, const View& var, const View& x) {
  const BatchShape shape = batch_shape(x);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x);
    for (int64_t c = 0; c < shape.C; ++c) {
      const Moments found = moments_of_channel(in.data(), shape, c);
      put_channel(mean, c, found.mean);
      put_channel(var, c, found.var);
    }
  });
}

// Batch norm with given statistics, of parts of x that a caller has in the cache. The bits are those of
// batch_norm().
template <class T>
class ChannelNorm {
 public:
  ChannelNorm(int64_t, const View& mean, const View& var, const View& weight, const View& bias, double eps)
      : mean_(mean), var_(var), weight_(weight), bias_(bias), eps_(eps) {}
  // n values of channel c; out may be x.
  void run(T* out, const T* x, int64_t c, int64_t n) const {
    normalize_channel(out, x, BatchShape{1, 1, n}, 0, element(mean_, c, 0),
                      1 / std::sqrt(element(var_, c, 0) + eps_), element(weight_, c, 1),
                      element(bias_, c, 0));
  }
  // One value of each of n channels from c on.
  void across(T* out, const T* x, int64_t c, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) run(out + i, x + i, c + i, 1);
  }

 private:
  View mean_, var_, weight_, bias_;
  double eps_;
};

TT_API void batch_norm(const View& out, const View& x, const View& mean, const View& var, const View& weight,
                       const View& bias, double eps) {
  if (out.numel() == 0) return;
  const BatchShape shape = batch_shape(x);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x);
    ContiguousOutput<T> to(out);
    for (int64_t c = 0; c < shape.C; ++c) {
      normalize_channel(to.data(), in.data(), shape, c, element(mean, c, 0),
                        1 / std::sqrt(element(var, c, 0) + eps), element(weight, c, 1), element(bias, c, 0));
    }
    to.write_back();
  });
}

// Sums over a channel: of dy, and of dy (x - mean).
struct GradSums {
  double dy = 0, dy_x = 0;
};
template <class T>
GradSums grad_sums(const T* dy, const T* x, const BatchShape& shape, int64_t c, double mean) {
  GradSums sums;
  for (int64_t n = 0; n < shape.N; ++n) {
    for (int64_t s = 0; s < shape.S; ++s) {
      const int64_t i = shape.at(n, c, s);
      sums.dy += static_cast<double>(dy[i]);
      sums.dy_x += static_cast<double>(dy[i]) * (static_cast<double>(x[i]) - mean);
    }
  }
  return sums;
}

TT_API void batch_norm_grad(const BatchNormGrads& out, const View& dy, const View& x, const View& mean,
                            const View& var, const View& weight, double eps, bool of_batch, const View& gmean,
                            const View& gvar) {
  const BatchShape shape = batch_shape(x);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> grad(dy), in(x);
    ContiguousOutput<T> dx(out.dx);
    for (int64_t c = 0; c < shape.C; ++c) {
      const double center = element(mean, c, 0), rstd = 1 / std::sqrt(element(var, c, 0) + eps);
      const double w = element(weight, c, 1);
      const GradSums sums = grad_sums(grad.data(), in.data(), shape, c, center);
      put_channel(out.dweight, c, sums.dy_x * rstd);
      put_channel(out.dbias, c, sums.dy);
      put_channel(out.dmean, c, -w * rstd * sums.dy);
      put_channel(out.dvar, c, -0.5 * w * rstd * rstd * rstd * sums.dy_x);
      if (!out.dx.data) continue;
      if (!of_batch) {  // given statistics do not depend on x
        normalize_channel(dx.data(), grad.data(), shape, c, 0, rstd, w, 0);
        continue;
      }
      channel_grad(dx.data(), grad.data(), in.data(), shape, c, center, rstd, w);
      const double by_mean = element(gmean, c, 0) / shape.count(),
                   by_var = 2 * element(gvar, c, 0) / shape.count();
      for (int64_t i = 0; (gmean.data || gvar.data) && i < shape.N * shape.S; ++i) {
        const int64_t at = shape.at(i / shape.S, c, i % shape.S);
        dx.data()[at] += static_cast<T>(by_mean + by_var * (static_cast<double>(in.data()[at]) - center));
      }
    }
    if (out.dx.data) dx.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
