// N:M masks: of each M neighbouring columns of a row, N are kept. 2:4 is the pattern of tensor cores
// (two_four.hpp).
//
//   Tensor keep = nm_mask(weight, 2, 4);                  // by magnitude
//   Tensor keep = nm_mask_of_scores(scores, 1, 8);        // by any criterion
//
// Every row and every group has the same number of elements, so that a kernel needs no offsets and all
// threads have the same work.
#pragma once

#include <tinytorch/pruning/sparsity.hpp>

namespace tinytorch::inline TT_BUILD {

// Throws TT-PRUNE-01 unless 1 <= N <= M and the columns of w [..., K] are a multiple of M.
inline void require_groups(const char* op, const Tensor& w, int64_t N, int64_t M, Loc loc) {
  require_defined(op, loc, w);
  if (N >= 1 && N <= M && w.rank() >= 1 && w.size(-1) % M == 0) return;
  fail("TT-PRUNE-01",
       std::string(op) + ": keeps " + std::to_string(N) + " of each " + std::to_string(M) + " columns of " +
           w.describe() + "\n  rule: 1 <= N <= M, and the last dimension is a multiple of M",
       loc);
}

// scores [..., K] of any number dtype -> bool mask: the M - N smallest of each group are false. Among equal
// scores, the first ones are removed, and a NaN is removed last.
inline Tensor nm_mask_of_scores(const Tensor& scores, int64_t N, int64_t M, TT_LOC) {
  const NoGrad no_grad;
  require_groups("nm_mask_of_scores", scores, N, M, loc);
  const Tensor values = scores.detach().to(cpu, loc).to(DType::f64, loc).contiguous(),
               mask = empty(scores.shape(), DType::boolean, cpu, loc);
  const double* const from = values.data<double>();
  bool* const to = static_cast<bool*>(mask.raw());
  parallel_for(values.numel() / M, grain_of(16 * M), [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) remove_smallest(from + g * M, M, M - N, to + g * M);
  });
  return mask.to(scores.device(), loc);
}

inline Tensor nm_mask(const Tensor& w, int64_t N, int64_t M, TT_LOC) {
  const NoGrad no_grad;
  require_groups("nm_mask", w, N, M, loc);
  return nm_mask_of_scores(abs(w.detach().to(DType::f64, loc), loc), N, M, loc);
}

}  // namespace tinytorch::inline TT_BUILD
