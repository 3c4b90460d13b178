// Attention as a composition of ops: the reference for the fused kernel, one readable line per step.
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.5. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <cmath>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

inline void require_attention_shapes(const Tensor& q, const Tensor& k, const Tensor& v, Loc loc) {
  const auto fits = [&](const Tensor& x) {
    return x.rank() == 4 && x.size(0) == q.size(0) && x.size(3) == q.size(3);
  };
  const bool same = q.rank() == 4 && fits(k) && k.shape() == v.shape();
  if (same && k.size(1) > 0 && q.size(1) % k.size(1) == 0) return;
  fail("TT-SHAPE-02",
       "attention: the shapes do not fit: q " + q.describe() + ", k " + k.describe() + ", v " + v.describe() +
           "\n  rule: q [B, H, T, D], k and v [B, G, S, D], G divides H",
       loc);
}

inline Tensor repeat_groups(const Tensor& x, int64_t heads, TT_LOC);  // task 4.5
// Task 4.5.
inline Tensor hidden_keys(int64_t T, int64_t S, const AttentionOptions& options, Device device, TT_LOC);
inline Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const AttentionOptions& options = {}, TT_LOC);  // task 4.5

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/transformer/composed_attention.hpp>
