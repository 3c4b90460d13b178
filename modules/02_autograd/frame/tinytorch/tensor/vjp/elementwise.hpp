// Derivatives of the elementwise ops: plain formulas, one line each.
//
// The frame of a course header: it has the given parts, and includes the functions of task 2.1.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR) || defined(TINYTORCH_TASK)
#include <numbers>
#include <tinytorch/backend/functors.hpp>

namespace tinytorch::inline TT_BUILD {

// The values that a unary rule may use: g, and either x or y. p0 and p1 are parameters of the op (bounds, a
// slope).
struct UnaryContext {
  const Tensor &g, &x, &y;
  double p0 = 0, p1 = 0;
};
using UnaryVjp = Tensor (*)(const UnaryContext&);

// g times a derivative that has a fused kernel; v is x or y as the function demands (backend/functors.hpp).
TT_API Tensor derivative_times(backend::BinaryFn fn, const Tensor& g, const Tensor& v, double p0 = 0);

namespace vjp {

// --- one operand: returns dL/dx, of x's shape ---

// neg: y = -x. square: y = x^2, saved: x. reciprocal: y = 1 / x, saved: y; since 1 / x^2 = y^2,
// there is nothing to divide.
inline Tensor neg(const UnaryContext& c) { return -c.g; }
inline Tensor square(const UnaryContext& c) { return c.g * c.x * 2; }
inline Tensor reciprocal(const UnaryContext& c) { return -(c.g * c.y * c.y); }

// g f'(v) by the kernel fn (backend/functors.hpp); v is the result y or the argument x.
template <backend::BinaryFn fn>
Tensor at_y(const UnaryContext& c) {
  return derivative_times(fn, c.g, c.y, c.p0);
}
template <backend::BinaryFn fn>
Tensor at_x(const UnaryContext& c) {
  return derivative_times(fn, c.g, c.x, c.p0);
}
inline Tensor pass(const UnaryContext& c) { return c.g; }
inline Tensor zero(const UnaryContext& c) { return zeros_like(c.g); }
inline Tensor abs(const UnaryContext& c) { return c.g * sign(c.x); }
inline Tensor clamp(const UnaryContext& c) {
  return where(logical_and(c.x >= c.p0, c.x <= c.p1), c.g, scalar_like(0, c.g));
}
inline Tensor log1p(const UnaryContext& c) { return c.g / (c.x + 1); }
inline Tensor expm1(const UnaryContext& c) { return c.g * (c.y + 1); }
inline Tensor rsqrt(const UnaryContext& c) { return c.g * c.y * c.y * c.y * -0.5; }
inline Tensor sin(const UnaryContext& c) { return c.g * tinytorch::cos(c.x); }
inline Tensor cos(const UnaryContext& c) { return -(c.g * tinytorch::sin(c.x)); }
inline Tensor erf(const UnaryContext& c) {
  return c.g * tinytorch::exp(-tinytorch::square(c.x)) * (2 * std::numbers::inv_sqrtpi);
}
}  // namespace vjp

// The values that a binary rule may use. g has the shape to which a and b broadcast, and so have the
// gradients: sum_to sums them to the operands' shapes, for all ops at once. Without need_a or need_b, that
// gradient may stay undefined, so that nothing is computed for it.
struct BinaryContext {
  const Tensor &g, &a, &b, &y;
  bool need_a = true, need_b = true;
};
struct BinaryGrads {
  Tensor a, b;
};
using BinaryVjp = BinaryGrads (*)(const BinaryContext&);

namespace vjp {

// --- two operands: returns {dL/da, dL/db} ---

// y = a + b and y = a - b, which save nothing.
inline BinaryGrads add(const BinaryContext& c) { return {c.g, c.g}; }
inline BinaryGrads sub(const BinaryContext& c) { return {c.g, c.need_b ? -c.g : Tensor()}; }

// maximum and minimum. Where operands tie, each gets half.
inline BinaryGrads choose(const BinaryContext& c, const Tensor& a_wins) {
  const Tensor zero = scalar_like(0, c.g);
  const Tensor shared = where(c.a == c.b, c.g * 0.5, c.g);
  return {where(a_wins, shared, zero), where(logical_or(logical_not(a_wins), c.a == c.b), shared, zero)};
}
inline BinaryGrads maximum(const BinaryContext& c) { return choose(c, c.a >= c.b); }
inline BinaryGrads minimum(const BinaryContext& c) { return choose(c, c.a <= c.b); }
}  // namespace vjp

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/tensor/vjp/elementwise.hpp>
#include <tinytorch/tensor/ops/elementwise.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>
#endif
