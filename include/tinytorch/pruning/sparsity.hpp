// Functions that all pruning criteria share: they remove an exact number of the least scores, and check
// settings.
//
// "Sparsity" is the share of elements that are removed, "density" the share that is kept. A mask is bool, and
// true where an element is kept.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// Throws TT-PRUNE-02 unless 0 <= sparsity < 1.
inline void require_sparsity(const char* op, double sparsity, Loc loc) {
  if (sparsity >= 0 && sparsity < 1) return;
  fail("TT-PRUNE-02",
       std::string(op) + ": the sparsity is the share of elements to remove, from 0 to below 1, got " +
           std::to_string(sparsity) + "\n  hint: 0.9 keeps a tenth; a layer without numbers computes nothing",
       loc);
}

// Throws TT-PRUNE-03 unless the mask is bool with the shape of w.
inline void require_mask(const char* op, const Tensor& w, const Tensor& mask, Loc loc) {
  require_defined(op, loc, w, mask);
  if (mask.dtype() == DType::boolean && mask.shape() == w.shape()) return;
  fail("TT-PRUNE-03",
       std::string(op) + ": " + mask.describe() + " is no mask of " + w.describe() +
           "\n  rule: bool with the same shape, true where an element is kept",
       loc);
}

// The number of n elements that are removed: the nearest integer to sparsity n.
inline int64_t removed_count(double sparsity, int64_t n) {
  return std::llround(sparsity * static_cast<double>(n));
}

// The share of zeros of a matrix or the share of a mask that is false; 0 for an empty tensor.
inline double sparsity_of(const Tensor& t, TT_LOC) {
  const NoGrad no_grad;
  require_defined("sparsity_of", loc, t);
  if (t.numel() == 0) return 0;
  const Tensor mask =
      t.dtype() == DType::boolean ? t : ne(t, zeros(Shape{}, t.dtype(), t.device(), loc), loc);
  return 1 - sum(mask.to(DType::f64, loc)).item<double>() / static_cast<double>(t.numel());
}

// Clears the `count` smallest of scores [n] in keep [n]. Among equal scores, the first ones are removed. A
// NaN is greater than all numbers, so that it is removed last and stays to be seen.
inline void remove_smallest(const double* scores, int64_t n, int64_t count, bool* keep) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto before = [scores](int64_t a, int64_t b) {
    const bool nan_a = std::isnan(scores[a]), nan_b = std::isnan(scores[b]);
    if (nan_a != nan_b) return nan_b;
    if (!nan_a && scores[a] != scores[b]) return scores[a] < scores[b];
    return a < b;
  };
  if (count > 0 && count < n) std::nth_element(order.begin(), order.begin() + count, order.end(), before);
  for (int64_t i = 0; i < n; ++i) keep[order[static_cast<size_t>(i)]] = i >= count;
}

// scores of any shape and number dtype -> mask without the share `sparsity` of the smallest, on the scores'
// device.
inline Tensor mask_of_scores(const Tensor& scores, double sparsity, TT_LOC) {
  const NoGrad no_grad;
  require_defined("mask_of_scores", loc, scores);
  require_sparsity("mask_of_scores", sparsity, loc);
  const Tensor values = scores.detach().to(cpu, loc).to(DType::f64, loc).contiguous(),
               mask = empty(scores.shape(), DType::boolean, cpu, loc);
  const int64_t n = values.numel();
  if (n > 0) {
    remove_smallest(values.data<double>(), n, removed_count(sparsity, n), static_cast<bool*>(mask.raw()));
  }
  return mask.to(scores.device(), loc);
}

// A mask of each row of scores [N, K] by itself: every row loses the share `sparsity`.
inline Tensor row_masks_of_scores(const Tensor& scores, double sparsity, TT_LOC) {
  const NoGrad no_grad;
  require_defined("row_masks_of_scores", loc, scores);
  require_sparsity("row_masks_of_scores", sparsity, loc);
  if (scores.rank() != 2)
    fail("TT-SHAPE-02", "row_masks_of_scores: needs a matrix [N, K], got " + scores.describe(), loc);
  const Tensor values = scores.detach().to(cpu, loc).to(DType::f64, loc).contiguous(),
               mask = empty(scores.shape(), DType::boolean, cpu, loc);
  const int64_t N = values.size(0), K = values.size(1), count = removed_count(sparsity, K);
  if (N * K > 0) {
    const double* const from = values.data<double>();
    bool* const to = static_cast<bool*>(mask.raw());
    parallel_for(N, grain_of(16 * K), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) remove_smallest(from + n * K, K, count, to + n * K);
    });
  }
  return mask.to(scores.device(), loc);
}

// w where the mask is true, and 0 elsewhere, also in the place of a NaN.
inline Tensor masked(const Tensor& w, const Tensor& mask, TT_LOC) {
  require_mask("masked", w, mask, loc);
  return where(mask, w, zeros(Shape{}, w.dtype(), w.device(), loc), loc);
}

}  // namespace tinytorch::inline TT_BUILD
