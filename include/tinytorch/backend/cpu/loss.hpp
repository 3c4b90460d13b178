// Losses on the CPU, fused with the operations before them, and their gradients.
//
//   cross_entropy    l = (1 - s) (lse - x_t) + s (lse - mean(x)),  lse = log sum exp(x),  s label smoothing
//                    dl/dx_j = exp(x_j - lse) - (1 - s) [j = t] - s / V
//   mse              l = (x - t)^2
//   bce_with_logits  l = max(x, 0) - x t + log(1 + exp(-|x|)),  dl/dx = sigmoid(x) - t
//
// The softmax of cross_entropy is never stored: the gradient recomputes it from the logits and lse. Sums are
// over blocks of fixed size, in double, so they do not depend on the number of threads.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// logits [N, V], target i64 [N] with values in [0, V) or ignore_index (not checked here). loss [] or, for
// LossReduction::none, [N]; lse [N] contiguous in the compute type. The mean is over targets that are not
// ignored.
TT_API void cross_entropy(const View& loss, const View& lse, const View& logits, const View& target,
                          const CrossEntropyParameters& parameters);
// Computes dx [N, V] from grad, which has the shape of the loss.
TT_API void cross_entropy_grad(const View& dx, const View& grad, const View& logits, const View& target,
                               const View& lse, const CrossEntropyParameters& parameters);
// Loss and gradient in one pass over the logits, where the gradient of the loss is the constant `grad`: each
// exponential is computed once. dx may be the memory of the logits.
TT_API void cross_entropy_with_grad(const View& loss, const View& lse, const View& dx, const View& logits,
                                    const View& target, const CrossEntropyParameters& parameters,
                                    double grad = 1);

// loss [] or, for LossReduction::none, of x's shape.
TT_API void pointwise_loss(PointwiseLoss fn, const View& loss, const View& x, const View& target,
                           LossReduction reduction);
// dx and dtarget from grad, the gradient of the loss, of its shape. Either may be without data.
TT_API void pointwise_loss_grad(PointwiseLoss fn, const View& dx, const View& dtarget, const View& grad,
                                const View& x, const View& target, LossReduction reduction);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/backend/cpu/pair_loss.hpp>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/scalar_math.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Maximum of a row, its sum, and the sum of exp(x - maximum). Sums of chunks are added in double.
template <class T>
struct LogitRow {
  T largest;
  double sum, sum_exp;
};

inline constexpr int64_t kLossChunk = 512;

template <class T>
LogitRow<T> measure_row(const T* x, int64_t n, bool with_sum) {
  LogitRow<T> row{max_run(x, n), 0, 0};
  T terms[kLossChunk];
  for (int64_t i = 0; i < n; i += kLossChunk) {
    const int64_t m = std::min(kLossChunk, n - i);
    TT_SIMD
    for (int64_t k = 0; k < m; ++k) terms[k] = math::exp<math::Range::below_zero>(x[i + k] - row.largest);
    row.sum_exp += static_cast<double>(sum_run(terms, m));
    if (with_sum) row.sum += static_cast<double>(sum_run(x + i, m));
  }
  return row;
}

inline std::vector<int64_t> read_targets(const View& target) {
  std::vector<int64_t> out(static_cast<size_t>(target.numel()));
  for (int64_t i = 0; i < target.numel(); ++i) {
    out[static_cast<size_t>(i)] = target.as<const int64_t>()[i * target.strides[0]];
  }
  return out;
}
inline int64_t count_targets(const std::vector<int64_t>& targets, int64_t ignored) {
  int64_t count = 0;
  for (int64_t t : targets) count += t != ignored;
  return count;
}

// The loss of a row. It uses differences from the largest logit, so that a common offset of the row costs no
// precision.
template <class T>
T row_loss(const LogitRow<T>& row, T at_target, T smoothing, int64_t V) {
  const T log_sum = static_cast<T>(std::log(row.sum_exp)), value = log_sum - (at_target - row.largest);
  if (smoothing == 0) return value;
  const double below = static_cast<double>(row.largest) - row.sum / static_cast<double>(V);
  return (T(1) - smoothing) * value + smoothing * (log_sum + static_cast<T>(below));
}

// Writes the loss of each row, or the sum or mean of the losses.
template <class T>
void reduce_losses(const View& loss, Scratch<T>& losses, const std::vector<int64_t>& targets,
                   const CrossEntropyParameters& p) {
  const auto N = static_cast<int64_t>(targets.size());
  if (p.reduction == LossReduction::none) return copy(loss, {losses.data(), dtype_of<T>, {N}, {1}});
  double total = 0;
  for (size_t n = 0; n < targets.size(); ++n) total += static_cast<double>(losses.data()[n]);
  if (p.reduction == LossReduction::mean)
    total /= static_cast<double>(count_targets(targets, p.ignore_index));
  fill(loss, total);
}

template <class T>
void cross_entropy_as(const View& loss, T* lse, const View& logits, const std::vector<int64_t>& targets,
                      const CrossEntropyParameters& p) {
  const int64_t N = logits.shape[0], V = logits.shape[1];
  const ContiguousInput<T> in(logits);
  Scratch<T> losses(N);
  const T smoothing = static_cast<T>(p.label_smoothing);
  parallel_for(N, std::max<int64_t>(1, 8192 / V), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const T* x = in.data() + n * V;
      const int64_t t = targets[static_cast<size_t>(n)];
      const LogitRow<T> row = measure_row(x, V, smoothing != 0);
      lse[n] = row.largest + static_cast<T>(std::log(row.sum_exp));
      losses.data()[n] = 0;
      if (t != p.ignore_index) losses.data()[n] = row_loss(row, x[t], smoothing, V);
    }
  });
  reduce_losses(loss, losses, targets, p);
}

TT_API void cross_entropy(const View& loss, const View& lse, const View& logits, const View& target,
                          const CrossEntropyParameters& parameters) {
  dispatch_floating(logits.dtype, [&]<class T>(T*) {
    cross_entropy_as<T>(loss, lse.as<T>(), logits, read_targets(target), parameters);
  });
}

template <class T>
void cross_entropy_grad_as(const View& dx, const View& grad, const View& logits,
                           const std::vector<int64_t>& targets, const T* lse,
                           const CrossEntropyParameters& p) {
  const int64_t N = logits.shape[0], V = logits.shape[1];
  const ContiguousInput<T> in(logits), g(grad);
  ContiguousOutput<T> out(dx);
  T scale = 1;
  if (p.reduction == LossReduction::mean) {
    scale = T(1) / static_cast<T>(std::max<int64_t>(1, count_targets(targets, p.ignore_index)));
  }
  const T smoothing = static_cast<T>(p.label_smoothing);
  parallel_for(N, std::max<int64_t>(1, 8192 / V), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const T* x = in.data() + n * V;
      T* to = out.data() + n * V;
      const int64_t t = targets[static_cast<size_t>(n)];
      if (t == p.ignore_index) {
        std::fill_n(to, V, T(0));
        continue;
      }
      const T weight = scale * g.data()[p.reduction == LossReduction::none ? n : 0];
      const T shift = lse[n], uniform = smoothing / static_cast<T>(V);
      TT_SIMD
      for (int64_t j = 0; j < V; ++j)
        to[j] = weight * (math::exp<math::Range::below_zero>(x[j] - shift) - uniform);
      to[t] -= weight * (T(1) - smoothing);
    }
  });
  out.write_back();
}

TT_API void cross_entropy_grad(const View& dx, const View& grad, const View& logits, const View& target,
                               const View& lse, const CrossEntropyParameters& parameters) {
  if (dx.numel() == 0) return;
  dispatch_floating(dx.dtype, [&]<class T>(T*) {
    cross_entropy_grad_as<T>(dx, grad, logits, read_targets(target), lse.as<const T>(), parameters);
  });
}

// Row by row in a buffer: the exponentials replace the logits, and the gradient replaces the exponentials.
template <class T>
void cross_entropy_with_grad_as(const View& loss, T* lse, const View& dx, const View& logits,
                                const std::vector<int64_t>& targets, const CrossEntropyParameters& p,
                                double grad) {
  const int64_t N = logits.shape[0], V = logits.shape[1];
  Scratch<T> losses(N);
  const T smoothing = static_cast<T>(p.label_smoothing), uniform = smoothing / static_cast<T>(V);
  if (p.reduction == LossReduction::mean)
    grad /= static_cast<double>(std::max<int64_t>(1, count_targets(targets, p.ignore_index)));
  parallel_for(N, std::max<int64_t>(1, 8192 / V), [&](int64_t begin, int64_t end) {
    Scratch<T> row_of_thread(V);
    T* const x = row_of_thread.data();
    for (int64_t n = begin; n < end; ++n) {
      const int64_t t = targets[static_cast<size_t>(n)];
      const bool counts = t != p.ignore_index;
      pack(x, logits, n * V, V);
      const T at_target = counts ? x[t] : T(0);
      LogitRow<T> row{max_run(x, V), 0, 0};
      for (int64_t i = 0; i < V; i += kLossChunk) {
        const int64_t m = std::min(kLossChunk, V - i);
        if (smoothing != 0) row.sum += static_cast<double>(sum_run(x + i, m));
        TT_SIMD
        for (int64_t k = i; k < i + m; ++k) x[k] = math::exp<math::Range::below_zero>(x[k] - row.largest);
        row.sum_exp += static_cast<double>(sum_run(x + i, m));
      }
      lse[n] = row.largest + static_cast<T>(std::log(row.sum_exp));
      losses.data()[n] = counts ? row_loss(row, at_target, smoothing, V) : T(0);
      const T weight = counts ? static_cast<T>(grad) : T(0),
              scale = counts ? static_cast<T>(static_cast<double>(weight) / row.sum_exp) : T(0);
      TT_SIMD
      for (int64_t j = 0; j < V; ++j) x[j] = scale * x[j] - weight * uniform;
      if (counts) x[t] -= weight * (T(1) - smoothing);
      unpack(dx, n * V, x, V);
    }
  });
  reduce_losses(loss, losses, targets, p);
}

TT_API void cross_entropy_with_grad(const View& loss, const View& lse, const View& dx, const View& logits,
                                    const View& target, const CrossEntropyParameters& parameters,
                                    double grad) {
  dispatch_floating(logits.dtype, [&]<class T>(T*) {
    cross_entropy_with_grad_as<T>(loss, lse.as<T>(), dx, logits, read_targets(target), parameters, grad);
  });
}

// --- pointwise losses ---

// Calls f with the loss function and with a null pointer of the compute type.
template <class F>
void dispatch_pointwise_loss(PointwiseLoss fn, DType dtype, F&& f) {
  using enum PointwiseLoss;
  dispatch_floating(dtype, [&]<class T>(T*) {
    if (fn == mse) return f.template operator()<mse, T>();
    f.template operator()<bce_with_logits, T>();
  });
}

TT_API void pointwise_loss(PointwiseLoss fn, const View& loss, const View& x, const View& target,
                           LossReduction reduction) {
  dispatch_pointwise_loss(fn, x.dtype, [&]<PointwiseLoss f, class T>() {
    pair_loss<T>([](T a, T t) { return loss_value<f, T>(a, t); }, loss, x, target, reduction);
  });
}

TT_API void pointwise_loss_grad(PointwiseLoss fn, const View& dx, const View& dtarget, const View& grad,
                                const View& x, const View& target, LossReduction reduction) {
  dispatch_pointwise_loss(fn, x.dtype, [&]<PointwiseLoss f, class T>() {
    pair_loss_grad<T>([](T a, T t) { return loss_derivative<f, T>(a, t); }, dx, grad, x, target, reduction);
    pair_loss_grad<T>([](T a, T t) { return loss_target_derivative<f, T>(a, t); }, dtarget, grad, x, target,
                      reduction);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
