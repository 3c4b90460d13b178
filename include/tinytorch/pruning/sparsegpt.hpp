// SparseGPT: removes elements column by column, and lets the columns to the right make up for it.
//
// The method is GPTQ (quantization/gptq.hpp) with H = X^T X + damping and H^-1 = U^T U, U upper triangular,
// in which an element is "rounded" to 0 or stays:
//
//   at the first column of a block:  score_nj = (w_nj / U_jj)^2, and the smallest of the block go
//   for column j:  e = w_nj / U_jj if it goes, else 0;   w_nk -= e U_jk for k > j;   w_nj = 0 if it goes
//
// The score is the rise of the squared error of the output after the best answer of the columns to the right.
// The mask of a block is chosen when its first column is reached, from the weights as they are then, and does
// not change within the block. With N:M patterns a block is a group of M columns.
// Source: Frantar and Alistarh, "SparseGPT: massive language models can be accurately pruned in one-shot",
// 2023.
#pragma once

#include <tinytorch/pruning/nm.hpp>
#include <tinytorch/quantization/gptq.hpp>

namespace tinytorch::inline TT_BUILD {

struct SparseGptOptions {
  double sparsity = 0.5;     // of each block of columns; unused if `of` is not 0
  int64_t keep = 0, of = 0;  // N:M: keep N of each M columns, {.keep = 2, .of = 4}
  int64_t block = 128;       // columns whose mask is chosen together
  double damping = 0.01;     // added to the diagonal of X^T X, as a multiple of its mean
};

namespace pruning {

// The mask [N, width] of columns [first, first + width) of w f64 [N, K].
inline Tensor sparsegpt_mask(const double* w, const double* U, int64_t N, int64_t K, int64_t first,
                             int64_t width, const SparseGptOptions& o, Loc loc) {
  const Tensor scores = empty({N, width}, DType::f64, cpu, loc);
  double* const to = scores.data<double>();
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t j = 0; j < width; ++j) {
      const double e = w[n * K + first + j] / U[(first + j) * K + first + j];
      to[n * width + j] = e * e;
    }
  }
  return o.of > 0 ? nm_mask_of_scores(scores, o.keep, o.of, loc) : mask_of_scores(scores, o.sparsity, loc);
}

}  // namespace pruning

// weight [N, K] -> a weight of the same shape, dtype and device, whose removed elements are exactly 0 and
// whose others are changed. The result has the same bits for any number of threads. Throws TT-PRUNE-01 or
// TT-PRUNE-02 for options out of range, and TT-CALIB-02 without inputs.
inline Tensor sparsegpt(const Tensor& weight, const InputStatistics& inputs, const SparseGptOptions& o = {},
                        TT_LOC) {
  const NoGrad no_grad;
  require_statistics("sparsegpt", weight, inputs, loc);
  require_sparsity("sparsegpt", o.sparsity, loc);
  if (o.of != 0) require_groups("sparsegpt", weight, o.keep, o.of, loc);
  if (o.block < 1 || !(o.damping >= 0) || std::isinf(o.damping))
    fail("TT-PRUNE-02", "sparsegpt: a block has at least one column, and the damping is at least 0", loc);
  const Tensor values = calibration_values("sparsegpt", weight, loc);
  (void)range_of("sparsegpt", {values.data<float>(), static_cast<size_t>(values.numel())}, loc);
  const Tensor factor = inverse_factor(inputs.gram(), o.damping, loc),
               result = values.to(DType::f64, loc).contiguous().clone();
  const int64_t N = values.size(0), K = values.size(1), block = o.of > 0 ? o.of : o.block;
  double* const w = result.data<double>();
  const double* const U = factor.data<double>();
  for (int64_t first = 0; first < K && N > 0; first += block) {
    const int64_t width = std::min(block, K - first);
    const Tensor mask = pruning::sparsegpt_mask(w, U, N, K, first, width, o, loc);
    const bool* const keep = static_cast<const bool*>(mask.raw());
    parallel_for(N, grain_of(K * width), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        double* const row = w + n * K;
        for (int64_t j = first; j < first + width; ++j) {
          if (keep[n * width + j - first]) continue;
          const double error = row[j] / U[j * K + j];
          for (int64_t k = j + 1; k < K; ++k) row[k] = math::multiply_add(-error, U[j * K + k], row[k]);
          row[j] = 0;
        }
      }
    });
  }
  return result.to(weight.dtype(), loc).to(weight.device(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
