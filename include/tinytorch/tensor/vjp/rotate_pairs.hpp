// Derivative of rotate_pairs: a rotation is linear, and its transpose rotates back.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/tensor/primitive.hpp>

namespace tinytorch::inline TT_BUILD {

struct RotationPlaces {
  int64_t first = 0, bound = 0;  // as in RotationTables
  bool inverse = false;
};
Tensor apply_rotation(const Tensors& inputs, const RotationPlaces& places, TT_LOC);

namespace vjp {
inline Tensors rotate_pairs(const Tensor& g, const Saved& s, RotationPlaces places) {
  Tensors inputs = s.inputs, grads(inputs.size());
  inputs[0] = g, places.inverse = !places.inverse;
  grads[0] = apply_rotation(inputs, places);
  return grads;
}
}  // namespace vjp

}  // namespace tinytorch::inline TT_BUILD
#endif
