// sum_to: the derivative of broadcasting.
//
// An element that was broadcast to n positions contributes to n results, so its gradient is the sum of
// theirs:
//
//   a [3, 1] + b [4] -> y [3, 4]      da = dy summed over dimension 1, db = dy summed over dimension 0
//
// Each broadcasting operation computes gradients in the result's shape and reduces them with sum_to.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)

namespace tinytorch::inline TT_BUILD {

// Sums x over the dimensions in which `shape` was broadcast to x's shape: aligned at the right, x may have
// more dimensions, and any size where `shape` has 1. An undefined x stays undefined; if x already has
// `shape`, x itself is returned.
TT_API Tensor sum_to(const Tensor& x, const Shape& shape, Loc loc) {
  if (!x.defined() || x.shape() == shape) return x;
  const int extra = x.rank() - shape.size();
  Dims dims;
  for (int d = 0; d < x.rank(); ++d) {
    if (d < extra || (shape[d - extra] == 1 && x.shape()[d] != 1)) dims.push_back(d);
  }
  return reshape(sum(x, dims, true, loc), shape, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
