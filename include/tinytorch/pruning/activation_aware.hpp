// Wanda: an element counts by its magnitude times the norm of its input.
//
//   score_nj = |w_nj| |X_j|,   |X_j| = the root of the sum of squares of input j over all calibration rows
//
// Removing w_nj changes the output by w_nj X_j, so a small weight of a large input may matter more than a
// large one of a small input. Elements are compared within a row, because all elements of a row add to the
// same output. No weight is changed, and the norms are sums over batches (InputStatistics).
// Source: Sun et al., "A simple and effective pruning approach for large language models", 2023.
#pragma once

#include <tinytorch/pruning/nm.hpp>
#include <tinytorch/quantization/input_statistics.hpp>

namespace tinytorch::inline TT_BUILD {

// weight [N, K] -> scores f64 [N, K] on the CPU. Throws TT-SHAPE-02 and TT-CALIB-02 if the statistics do not
// fit.
inline Tensor wanda_scores(const Tensor& weight, const InputStatistics& inputs, TT_LOC) {
  const NoGrad no_grad;
  require_statistics("wanda_scores", weight, inputs, loc);
  const int64_t K = inputs.features();
  const Tensor norms = sqrt(alias(inputs.gram(), {K}, {K + 1}, 0).contiguous());
  return abs(weight.detach().to(cpu, loc).to(DType::f64, loc), loc) * norms;
}

// The mask of a weight [N, K] on its device: each row loses the share `sparsity`.
inline Tensor wanda_mask(const Tensor& weight, const InputStatistics& inputs, double sparsity, TT_LOC) {
  return row_masks_of_scores(wanda_scores(weight, inputs, loc), sparsity, loc).to(weight.device(), loc);
}
// A Wanda mask that keeps N of each M columns.
inline Tensor wanda_mask(const Tensor& weight, const InputStatistics& inputs, int64_t N, int64_t M, TT_LOC) {
  return nm_mask_of_scores(wanda_scores(weight, inputs, loc), N, M, loc).to(weight.device(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
