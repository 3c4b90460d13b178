// Losses on the CPU, each fused with what precedes it, and their gradients.
//
//   cross_entropy    l = (1 - s) (lse - x_t) + s (lse - mean(x)),  lse = log sum exp(x),  s label smoothing
//   mse              l = (x - t)^2
//   bce_with_logits  l = max(x, 0) - x t + log(1 + exp(-|x|))
//
// Cross-entropy takes logits and not probabilities: log(softmax(x)) written as x - lse neither overflows nor
// takes the logarithm of 0. Its gradient is almost free: the probabilities, less 1 at the target. You write
// the three functions of one row and the row's share of the whole; the rest is given.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// logits [N, V], target i64 [N] with values in [0, V) or ignore_index (not checked here)
// -> loss [] or [N] (reduction none); lse [N] in the compute type. The mean is over targets not ignored.
TT_API void cross_entropy(const View& loss, const View& lse, const View& logits, const View& target,
                          const CrossEntropyParameters& parameters);
// dx [N, V] from grad [] or [N], the gradient of the loss.
TT_API void cross_entropy_grad(const View& dx, const View& grad, const View& logits, const View& target,
                               const View& lse, const CrossEntropyParameters& parameters);
// Both, for the gradient `grad` of the loss. dx may be the logits themselves.
TT_API void cross_entropy_with_grad(const View& loss, const View& lse, const View& dx, const View& logits,
                                    const View& target, const CrossEntropyParameters& parameters,
                                    double grad = 1);

// loss [] or of x's shape.
TT_API void pointwise_loss(PointwiseLoss fn, const View& loss, const View& x, const View& target,
                           LossReduction reduction);
// dx and dtarget, either of which may be without data; grad as loss.
TT_API void pointwise_loss_grad(PointwiseLoss fn, const View& dx, const View& dtarget, const View& grad,
                                const View& x, const View& target, LossReduction reduction);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <cmath>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/functors.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- Cross-entropy
// ---------------------------------------------------------------------------------------------

// What the loss needs to know of a row of logits x [V].
struct LogitSummary {
  double largest;  // max(x)
  double log_sum;  // log(sum of exp(x_j - largest)), so that lse = largest + log_sum
  double mean;     // of x
};

template <class T>
LogitSummary summarize(const T* x, int64_t V) {
  T largest = x[0];
  for (int64_t j = 1; j < V; ++j) largest = std::max(largest, x[j]);
  double sum_exp = 0, sum = 0;
  for (int64_t j = 0; j < V; ++j) {
    sum_exp += static_cast<double>(std::exp(x[j] - largest));
    sum += static_cast<double>(x[j]);
  }
  return {static_cast<double>(largest), std::log(sum_exp), sum / static_cast<double>(V)};
}

// (1 - s) (lse - x_t) + s (lse - mean). Written with distances from the largest logit: lse and x_t may both
// be near a million, and their difference would keep few of its digits. With s = 0 the mean stays out of it:
// it is -inf where a logit is masked by -inf, and 0 times infinity is no number.
inline double loss_of_row(const LogitSummary& row, double at_target, double smoothing) {
  const double of_target = row.log_sum - (at_target - row.largest);
  if (smoothing == 0) return of_target;
  const double of_all = row.log_sum - (row.mean - row.largest);
  return (1 - smoothing) * of_target + smoothing * of_all;
}

// dx_j = weight (e^(x_j - lse) - s / V - (1 - s) [j = target]): the probabilities, less what was wished for.
// dx may be x.
template <class T>
void loss_grad_of_row(T* dx, const T* x, int64_t V, int64_t target, double lse, double smoothing,
                      double weight) {
  const double uniform = smoothing / static_cast<double>(V);
  for (int64_t j = 0; j < V; ++j) {
    const double wanted = uniform + (j == target ? 1 - smoothing : 0);
    dx[j] = static_cast<T>(weight * (std::exp(static_cast<double>(x[j]) - lse) - wanted));
  }
}

// By what each row's loss is multiplied before they are added up: 1 for sum and none; for the mean 1 / the
// number of targets that are not p.ignore_index. Rows to be ignored add nothing, and do not count.
inline double share_of_row(const std::vector<int64_t>& targets, const CrossEntropyParameters& p) {
  if (p.reduction != LossReduction::mean) return 1;
  int64_t count = 0;
  for (const int64_t t : targets) count += t != p.ignore_index;
  return 1 / static_cast<double>(count);
}

inline std::vector<int64_t> targets_of(const View& target) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < target.numel(); ++i) {
    out.push_back(target.as<const int64_t>()[i * target.strides[0]]);
  }
  return out;
}

// The loss, and where dx has data its gradient, for `grad` times the row's share.
template <class T>
void cross_entropy_rows(const View& loss, T* lse, const View& dx, const View& logits, const View& target,
                        const CrossEntropyParameters& p, double grad) {
  const int64_t N = logits.shape[0], V = logits.shape[1];
  const std::vector<int64_t> targets = targets_of(target);
  const double share = share_of_row(targets, p);
  const ContiguousInput<T> in(logits);
  ContiguousOutput<T> out(dx);
  std::vector<double> losses(targets.size());
  double total = 0;
  for (int64_t n = 0; n < N; ++n) {
    const int64_t t = targets[static_cast<size_t>(n)];
    const T* x = in.data() + n * V;
    const LogitSummary row = summarize(x, V);
    lse[n] = static_cast<T>(row.largest + row.log_sum);
    double& value = losses[static_cast<size_t>(n)];
    if (t != p.ignore_index) value = loss_of_row(row, static_cast<double>(x[t]), p.label_smoothing);
    total += value;
    if (!dx.data) continue;
    if (t == p.ignore_index) {
      std::fill_n(out.data() + n * V, V, T(0));
    } else {
      loss_grad_of_row(out.data() + n * V, x, V, t, row.largest + row.log_sum, p.label_smoothing,
                       share * grad);
    }
  }
  if (dx.data) out.write_back();
  if (p.reduction == LossReduction::none) return copy(loss, {losses.data(), DType::f64, {N}, {1}});
  fill(loss, total * share);
}

TT_API void cross_entropy(const View& loss, const View& lse, const View& logits, const View& target,
                          const CrossEntropyParameters& parameters) {
  cross_entropy_with_grad(loss, lse, {}, logits, target, parameters);
}
TT_API void cross_entropy_with_grad(const View& loss, const View& lse, const View& dx, const View& logits,
                                    const View& target, const CrossEntropyParameters& parameters,
                                    double grad) {
  dispatch_floating(logits.dtype, [&]<class T>(T*) {
    cross_entropy_rows<T>(loss, lse.as<T>(), dx, logits, target, parameters, grad);
  });
}

TT_API void cross_entropy_grad(const View& dx, const View& grad, const View& logits, const View& target,
                               const View& lse, const CrossEntropyParameters& parameters) {
  if (dx.numel() == 0) return;
  const CrossEntropyParameters& p = parameters;
  dispatch_floating(dx.dtype, [&]<class T>(T*) {
    const int64_t N = logits.shape[0], V = logits.shape[1];
    const std::vector<int64_t> targets = targets_of(target);
    const double share = share_of_row(targets, p);
    const ContiguousInput<T> in(logits), g(grad);
    ContiguousOutput<T> out(dx);
    for (int64_t n = 0; n < N; ++n) {
      const int64_t t = targets[static_cast<size_t>(n)];
      T* const to = out.data() + n * V;
      if (t == p.ignore_index) {
        std::fill_n(to, V, T(0));
        continue;
      }
      const double weight = share * static_cast<double>(g.data()[p.reduction == LossReduction::none ? n : 0]);
      loss_grad_of_row(to, in.data() + n * V, V, t, static_cast<double>(lse.as<const T>()[n]),
                       p.label_smoothing, weight);
    }
    out.write_back();
  });
}

// --- Losses of one element each, whose formulas are in backend/functors.hpp
// ------------------------------------

template <class T>
T pointwise_value(PointwiseLoss fn, T x, T t) {
  using enum PointwiseLoss;
  return fn == mse ? loss_value<mse>(x, t) : loss_value<bce_with_logits>(x, t);
}
template <class T>
T pointwise_slope(PointwiseLoss fn, bool by_target, T x, T t) {
  using enum PointwiseLoss;
  if (by_target)
    return fn == mse ? loss_target_derivative<mse>(x, t) : loss_target_derivative<bce_with_logits>(x, t);
  return fn == mse ? loss_derivative<mse>(x, t) : loss_derivative<bce_with_logits>(x, t);
}

TT_API void pointwise_loss(PointwiseLoss fn, const View& loss, const View& x, const View& target,
                           LossReduction reduction) {
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> a(x), b(target);
    if (reduction == LossReduction::none) {
      ContiguousOutput<T> out(loss);
      for (int64_t i = 0; i < x.numel(); ++i) out.data()[i] = pointwise_value(fn, a.data()[i], b.data()[i]);
      return out.write_back();
    }
    double total = 0;
    for (int64_t i = 0; i < x.numel(); ++i) {
      total += static_cast<double>(pointwise_value(fn, a.data()[i], b.data()[i]));
    }
    fill(loss, reduction == LossReduction::mean ? total / static_cast<double>(x.numel()) : total);
  });
}

TT_API void pointwise_loss_grad(PointwiseLoss fn, const View& dx, const View& dtarget, const View& grad,
                                const View& x, const View& target, LossReduction reduction) {
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> a(x), b(target), g(grad);
    const T share = reduction == LossReduction::mean ? T(1) / static_cast<T>(x.numel()) : T(1);
    for (const bool by_target : {false, true}) {
      const View& to = by_target ? dtarget : dx;
      if (!to.data) continue;
      ContiguousOutput<T> out(to);
      for (int64_t i = 0; i < x.numel(); ++i) {
        const T weight = reduction == LossReduction::none ? g.data()[i] : share * g.data()[0];
        out.data()[i] = weight * pointwise_slope(fn, by_target, a.data()[i], b.data()[i]);
      }
      out.write_back();
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
