// sum_to: the derivative of broadcasting.
//
// A value that was stretched over n places took part in n results, and its gradient is the sum of theirs:
//
//   a [3, 1] + b [4] -> y [3, 4]      da = dy summed over dimension 1, db = dy summed over dimension 0
//
// Every op that broadcasts makes gradients of the result's shape and hands them to sum_to.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)

namespace tinytorch::inline TT_BUILD {

// x summed down to `shape`, from which x's shape came by broadcasting: aligned at the right, x may have more
// dimensions, and where `shape` has 1, x may have any size. Undefined stays undefined; x of that shape is
// returned as it is.
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
