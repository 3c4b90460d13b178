// Losses on the CPU, each fused with what precedes it, and their gradients.
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.4.
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

#if TT_BODIES(BACKEND) || defined(TINYTORCH_TASK)
#include <cmath>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/functors.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- Cross-entropy
// ---------------------------------------------------------------------------------------------

// The numbers of a row of logits x [V] that the loss is computed from.
struct LogitSummary {
  double largest;  // max(x)
  double log_sum;  // log(sum of exp(x_j - largest)), so that lse = largest + log_sum
  double mean;     // of x
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/loss.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

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
