// Derivatives of the views: the inverse rearrangement of the gradient.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)

namespace tinytorch::inline TT_BUILD::vjp {

inline Tensor reshape(const Tensor& g, const Shape& shape) { return tinytorch::reshape(g, shape); }

inline Tensor permute(const Tensor& g, const Dims& order) {
  Dims inverse = order;
  for (int d = 0; d < order.size(); ++d) inverse[static_cast<int>(order[d])] = d;
  return tinytorch::permute(g, inverse);
}

inline Tensor expand(const Tensor& g, const Shape& shape) { return sum_to(g, shape); }

// Elements outside of the slice get a gradient of 0 (ops/shape.hpp).
TT_API Tensor slice(const Tensor& g, const Shape& shape, int dim, int64_t start, int64_t stop, int64_t step);

}  // namespace tinytorch::inline TT_BUILD::vjp
#endif
