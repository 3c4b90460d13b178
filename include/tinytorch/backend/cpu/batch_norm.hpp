// Batch normalization on the CPU, forward and backward. x is [N, C, S]; every channel is normalized over N
// and S.
//
//   y = (x - mean) rstd w[c] + b[c],  rstd = 1 / sqrt(var + eps)
//
// Both directions are two loops over runs (loops/channel_runs.hpp). A channels-last image is treated as N H W
// samples with S = 1, so that the loops are over contiguous memory.
// Source: Ioffe and Szegedy, "Batch normalization", 2015.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// x [N, C, ...]; mean, var [C] contiguous in the compute type (f32, or f64 for f64); var is biased.
TT_API void channel_moments(const View& mean, const View& var, const View& x);
// out = (x - mean) / sqrt(var + eps) w + b; weight, bias [C] or without data.
TT_API void batch_norm(const View& out, const View& x, const View& mean, const View& var, const View& weight,
                       const View& bias, double eps);
// Gradients of batch_norm (parameters.hpp). of_batch: mean and var were computed from x, and gmean, gvar are
// their gradients, or without data.
TT_API void batch_norm_grad(const BatchNormGrads& out, const View& dy, const View& x, const View& mean,
                            const View& var, const View& weight, double eps, bool of_batch, const View& gmean,
                            const View& gvar);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <cmath>
#include <tinytorch/backend/cpu/loops/channel_runs.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/layout.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Sizes of x as batch_norm sees it, and operand(), which gives a view of x's shape these dimensions.
struct BatchShape : ChannelShape {
  bool channels_last;
  explicit BatchShape(const View& x) : ChannelShape(x), channels_last(is_dense_channels_last(x)) {
    if (channels_last) N *= std::exchange(S, 1);
  }
  View operand(const View& v) const { return channels_last && v.data ? channels_at_end(v) : v; }
};

TT_API void channel_moments(const View& mean, const View& var, const View& x) {
  const BatchShape shape(x);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(shape.operand(x));
    const ChannelSums<T> sums({RunSum::value, in.data(), nullptr, nullptr, 0}, shape);
    for (int64_t c = 0; c < shape.C; ++c) {
      mean.as<T>()[c] = static_cast<T>(sums.first[static_cast<size_t>(c)] / shape.count());
    }
    const ChannelSums<T> squares({RunSum::square, in.data(), nullptr, mean.as<T>(), 0}, shape);
    for (int64_t c = 0; c < shape.C; ++c) {
      var.as<T>()[c] = static_cast<T>(squares.first[static_cast<size_t>(c)] / shape.count());
    }
  });
}

// Batch norm with given statistics, of parts of x that a caller has in the cache. The bits are those of
// batch_norm().
template <class T>
class ChannelNorm {
 public:
  ChannelNorm(int64_t channels, const View& mean, const View& var, const View& weight, const View& bias,
              double eps)
      : k_(channels, 0) {
    const ContiguousInput<T> m(mean), v(var), w(weight), b(bias);
    for (int64_t c = 0; c < channels; ++c) {
      const auto i = static_cast<size_t>(c);
      const double rstd = 1 / std::sqrt(static_cast<double>(v.data()[c]) + eps);
      k_.b[i] = static_cast<T>(rstd * (w.data() ? static_cast<double>(w.data()[c]) : 1.0));
      k_.c[i] = b.data() ? b.data()[c] : T(0);
      k_.center[i] = m.data()[c];
    }
  }
  const RunCoefficients<T>& coefficients() const { return k_; }
  // n values of channel c; out may be x.
  void run(T* out, const T* x, int64_t c, int64_t n) const {
    const auto i = static_cast<size_t>(c);
    scale_run(out, x, k_.b[i], k_.center[i], k_.c[i], n);
  }
  // One value of each of n channels from c on.
  void across(T* out, const T* x, int64_t c, int64_t n) const {
    scale_across(out, x, k_.b.data() + c, k_.center.data() + c, k_.c.data() + c, n);
  }

 private:
  RunCoefficients<T> k_;
};

TT_API void batch_norm(const View& out, const View& x, const View& mean, const View& var, const View& weight,
                       const View& bias, double eps) {
  if (out.numel() == 0) return;
  const BatchShape shape(x);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(shape.operand(x));
    ContiguousOutput<T> to(shape.operand(out));
    const ChannelNorm<T> norm(shape.C, mean, var, weight, bias, eps);
    combine_runs<T>(to.data(), nullptr, in.data(), norm.coefficients(), shape);
    to.write_back();
  });
}

template <class T>
void batch_norm_grad_as(const BatchNormGrads& out, const View& dy, const View& x, const View& mean,
                        const View& var, const View& weight, double eps, bool of_batch, const View& gmean,
                        const View& gvar) {
  const BatchShape shape(x);
  const ContiguousInput<T> grad(shape.operand(dy)), in(shape.operand(x)), m(mean), v(var), w(weight),
      gm(gmean), gv(gvar);
  ContiguousOutput<T> dx(shape.operand(out.dx)), dweight(out.dweight), dbias(out.dbias), dmean(out.dmean),
      dvar(out.dvar);
  const ChannelSums<T> sums({RunSum::products, in.data(), grad.data(), m.data(), 0}, shape);
  RunCoefficients<T> k(shape.C, 0);
  for (int64_t c = 0; c < shape.C; ++c) {
    const auto i = static_cast<size_t>(c);
    const double rstd = 1 / std::sqrt(static_cast<double>(v.data()[c]) + eps), n = shape.count();
    const double scale = rstd * (w.data() ? static_cast<double>(w.data()[c]) : 1.0);
    const double sum = sums.first[i], dot = sums.second[i];  // sums of dy and of dy (x - mean)
    double by_x = 0, constant = 0;
    if (of_batch) {
      by_x = -scale * rstd * rstd * dot / n + (gv.data() ? 2 * static_cast<double>(gv.data()[c]) / n : 0);
      constant = -scale * sum / n + (gm.data() ? static_cast<double>(gm.data()[c]) / n : 0);
    }
    k.a[i] = static_cast<T>(scale);
    k.b[i] = static_cast<T>(by_x);
    k.c[i] = static_cast<T>(constant);
    k.center[i] = m.data()[c];
    if (dweight.data()) dweight.data()[c] = static_cast<T>(dot * rstd);
    if (dbias.data()) dbias.data()[c] = static_cast<T>(sum);
    if (dmean.data()) dmean.data()[c] = static_cast<T>(-scale * sum);
    if (dvar.data()) dvar.data()[c] = static_cast<T>(-0.5 * scale * rstd * rstd * dot);
  }
  if (dx.data()) combine_runs<T>(dx.data(), grad.data(), in.data(), k, shape);
  for (ContiguousOutput<T>* d : {&dx, &dweight, &dbias, &dmean, &dvar}) d->write_back();
}

TT_API void batch_norm_grad(const BatchNormGrads& out, const View& dy, const View& x, const View& mean,
                            const View& var, const View& weight, double eps, bool of_batch, const View& gmean,
                            const View& gvar) {
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    batch_norm_grad_as<T>(out, dy, x, mean, var, weight, eps, of_batch, gmean, gvar);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
