// Derivatives of in-place writes to a view.
#pragma once

#include <tinytorch/tensor/fill.hpp>
#include <tinytorch/tensor/operators.hpp>
#include <tinytorch/tensor/primitive.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/elementwise.hpp>

namespace tinytorch::inline TT_BUILD::vjp {

// A view of a base that has no gaps in memory: `offset` counts from the base's first element.
struct Region {
  Shape base_shape;
  Strides base_strides;
  Shape shape;
  Strides strides;
  int64_t offset = 0;
};

// Memory of the base's shape and layout, in which `at.strides` are valid.
inline Tensor memory_like_base(const Tensor& g, const Region& at) {
  Tensor t = empty(at.base_shape, g.dtype(), g.device());
  t.impl()->strides = at.base_strides;
  return t;
}
inline Tensor region_in(const Tensor& t, const Region& at) {
  return alias(t, at.shape, at.strides, at.offset);
}

// y = base with the region replaced by values: the gradient of the base is 0 in the region, whose gradients
// belong to the values.
inline Tensors write_region(const Tensor& g, const Region& at) {
  Tensor outside = memory_like_base(g, at);
  TT_KERNEL(outside, copy(outside.view_of(), g.view_of()));
  Tensor inside = region_in(outside, at);
  const Tensor values = inside.clone();
  fill_values(inside, 0);
  return {outside, values};
}

// y = the region of the base: all other elements have the gradient 0.
inline Tensor region(const Tensor& g, const Region& at) {
  Tensor all = memory_like_base(g, at);
  fill_values(all, 0);
  TT_KERNEL(all, copy(region_in(all, at).view_of(), g.view_of()));
  return all;
}

}  // namespace tinytorch::inline TT_BUILD::vjp
#endif
