// Losses on the CPU, each fused with what precedes it, and their gradients.
//
//   cross_entropy    l = (1 - s) (lse - x_t) + s (lse - mean(x)),  lse = log sum exp(x),  s label smoothing
//   mse              l = (x - t)^2
//   bce_with_logits  l = max(x, 0) - x t + log(1 + exp(-|x|))
//
// Cross-entropy takes logits and not probabilities: log(softmax(x)) written as x - lse neither overflows nor
// takes the logarithm of 0. Its gradient is almost free: the probabilities, less 1 at the target. You write
// the three functions of one row and the row's share of the whole; the rest is given.
//
// Task 3.4: summarize, loss_of_row, loss_grad_of_row, share_of_row. The given parts of this header are in
// modules/03_layers/frame/tinytorch/backend/cpu/loss.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

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

// The factor by which each row's loss is multiplied before the sum: 1 for sum and none; for the mean 1 / the
// number of targets that are not p.ignore_index. Rows that are ignored add nothing, and do not count.
inline double share_of_row(const std::vector<int64_t>& targets, const CrossEntropyParameters& p) {
  if (p.reduction != LossReduction::mean) return 1;
  int64_t count = 0;
  for (const int64_t t : targets) count += t != p.ignore_index;
  return 1 / static_cast<double>(count);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
