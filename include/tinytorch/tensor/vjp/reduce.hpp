// Derivatives of the reductions. The gradient first gets the reduced dimensions back with size 1.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <limits>

namespace tinytorch::inline TT_BUILD::vjp {

// x, y and g have shapes that broadcast against each other; count is the number of elements per result.
struct ReduceContext {
  const Tensor &g, &x, &y;
  const Shape& shape;  // shape of x
  double count, correction;
};
using ReduceVjp = Tensor (*)(const ReduceContext&);

inline Tensor sum(const ReduceContext& c) { return tinytorch::expand(c.g, c.shape); }
// g / n; computed in f32 for 16-bit types, because f16 may not be able to hold n.
inline Tensor over(const Tensor& g, double n) {
  return is_16_bit(g.dtype()) ? (g.to(DType::f32) / n).to(g.dtype()) : g / n;
}
inline Tensor mean(const ReduceContext& c) { return tinytorch::expand(over(c.g, c.count), c.shape); }
// Gradient of max and min: elements equal to the extreme value share it equally.
inline Tensor extreme(const ReduceContext& c, const Dims& dims) {
  const Tensor hit = c.x == c.y;
  const Tensor hits = tinytorch::sum(hit.to(c.g.dtype()), dims, true);
  return where(hit, tinytorch::expand(c.g / hits, c.shape), scalar_like(0, c.g));
}
inline Tensor norm(const ReduceContext& c) {  // g x / y, and 0 where the norm y is 0
  return where(c.y == 0, scalar_like(0, c.g), c.g / c.y) * c.x;
}
inline Tensor logsumexp(
    const ReduceContext& c) {  // g e^(x - y), and 0 where y = -inf, because all of x is -inf
  const Tensor none = c.y == -std::numeric_limits<double>::infinity();
  return c.g * exp(c.x - where(none, scalar_like(0, c.y), c.y));
}

// d prod / dx_i = product of the other elements. prod / x_i fails at zeros: with one zero, only the
// derivative of that element is not 0; with two or more zeros, all derivatives are 0.
inline Tensor prod(const ReduceContext& c, const Dims& dims) {
  const Tensor zero = c.x == 0;
  const Tensor zeros = tinytorch::sum(zero.to(c.g.dtype()), dims, true);
  const Tensor others = tinytorch::prod(where(zero, scalar_like(1, c.x), c.x), dims, true);
  const Tensor none = scalar_like(0, c.g);
  const Tensor at_zero = where(zeros == 1, others, none);
  return c.g * where(zero, at_zero, where(zeros == 0, others, none) / where(zero, scalar_like(1, c.x), c.x));
}
inline Tensor var(const ReduceContext& c, const Tensor& mean) {
  return over(c.g, (c.count - c.correction) / 2) * (c.x - mean);
}
inline Tensor stddev(const ReduceContext& c,
                     const Tensor& mean) {  // g (x - mean) / (y n), and 0 where all x are equal
  return where(c.y == 0, scalar_like(0, c.g), over(c.g / c.y, c.count - c.correction)) * (c.x - mean);
}
inline Tensor cumsum(const Tensor& g, int dim) {
  return tinytorch::flip(tinytorch::cumsum(tinytorch::flip(g, {dim}), dim), {dim});
}

}  // namespace tinytorch::inline TT_BUILD::vjp
#endif
