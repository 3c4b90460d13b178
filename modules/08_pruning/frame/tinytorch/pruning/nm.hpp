// N:M masks: of each M neighbouring columns of a row, N are kept. 2:4 is the pattern of tensor cores
// (two_four.hpp).
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.5. It is cut
// from the library's header by modules/frames.py.
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

inline Tensor nm_mask_of_scores(const Tensor& scores, int64_t N, int64_t M, TT_LOC);  // task 8.5
inline Tensor nm_mask(const Tensor& w, int64_t N, int64_t M, TT_LOC);                 // task 8.5

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/pruning/nm.hpp>
