// Derivative of dropout: dy with the same mask and scale, which are recomputed from the random counter.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD::vjp {

inline Tensor dropout(const Tensor& g, const PrimitiveBase& same) { return apply(same, {g}); }

}  // namespace tinytorch::inline TT_BUILD::vjp
#endif
