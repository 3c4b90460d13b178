// Derivatives of the elementwise operations, one formula each.
//
// g is the gradient of the result y = f(x), and a unary rule returns the gradient of x. A binary rule returns
// the gradients of both operands in the broadcast shape; the primitive reduces them with sum_to.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <numbers>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/tensor/graph.hpp>

namespace tinytorch::inline TT_BUILD {

// Arguments of a unary rule; x or y is undefined unless the operation's row in kUnaryRules saves it.
struct UnaryContext {
  const Tensor &g, &x, &y;
  double p0 = 0, p1 = 0;
};
using UnaryVjp = Tensor (*)(const UnaryContext&);

// g times f'(x), computed by one kernel. v is x or y, as fn demands (backend/functors.hpp). p0 is the
// parameter of f, such as the slope of leaky_relu.
TT_API Tensor derivative_times(backend::BinaryFn fn, const Tensor& g, const Tensor& v, double p0 = 0);

namespace vjp {
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
inline Tensor zero(const UnaryContext& c) {
  const Tensor none = zeros_like(c.g);
  return grad_enabled() ? where(none != 0, c.g, none) : none;  // recorded for a second derivative
}
inline Tensor neg(const UnaryContext& c) { return -c.g; }
inline Tensor abs(const UnaryContext& c) { return c.g * sign(c.x); }
inline Tensor square(const UnaryContext& c) { return c.g * c.x * 2; }
inline Tensor clamp(const UnaryContext& c) {
  return where(logical_and(c.x >= c.p0, c.x <= c.p1), c.g, scalar_like(0, c.g));
}
inline Tensor exp(const UnaryContext& c) { return c.g * c.y; }
inline Tensor log(const UnaryContext& c) { return c.g / c.x; }
inline Tensor log1p(const UnaryContext& c) { return c.g / (c.x + 1); }
inline Tensor expm1(const UnaryContext& c) { return c.g * (c.y + 1); }
inline Tensor sqrt(const UnaryContext& c) { return c.g / (c.y * 2); }
inline Tensor rsqrt(const UnaryContext& c) { return c.g * c.y * c.y * c.y * -0.5; }
inline Tensor reciprocal(const UnaryContext& c) { return -(c.g * c.y * c.y); }
inline Tensor sin(const UnaryContext& c) { return c.g * tinytorch::cos(c.x); }
inline Tensor cos(const UnaryContext& c) { return -(c.g * tinytorch::sin(c.x)); }
inline Tensor erf(const UnaryContext& c) {
  return c.g * tinytorch::exp(-tinytorch::square(c.x)) * (2 * std::numbers::inv_sqrtpi);
}
inline Tensor tanh(const UnaryContext& c) { return derivative_times(backend::BinaryFn::tanh_grad, c.g, c.y); }
inline Tensor sigmoid(const UnaryContext& c) {
  return derivative_times(backend::BinaryFn::sigmoid_grad, c.g, c.y);
}
}  // namespace vjp

// need_a, need_b: false if the gradient of that operand is not needed, so the rule may leave it undefined.
struct BinaryContext {
  const Tensor &g, &a, &b, &y;
  bool need_a = true, need_b = true;
};
struct BinaryGrads {
  Tensor a, b;
};
using BinaryVjp = BinaryGrads (*)(const BinaryContext&);

namespace vjp {
inline BinaryGrads add(const BinaryContext& c) { return {c.g, c.g}; }
inline BinaryGrads sub(const BinaryContext& c) { return {c.g, c.need_b ? -c.g : Tensor()}; }
inline BinaryGrads mul(const BinaryContext& c) {
  return {c.need_a ? c.g * c.b : Tensor(), c.need_b ? c.g * c.a : Tensor()};
}
inline BinaryGrads div(const BinaryContext& c) {
  const Tensor ga = c.g / c.b;
  return {ga, c.need_b ? -(ga * (c.a / c.b)) : Tensor()};
}
// d a^b = b a^(b-1) da + a^b log(a) db. Where b = 0 or a = 0, the limit 0 is used, because 0 * inf would be
// NaN.
inline BinaryGrads pow(const BinaryContext& c) {
  BinaryGrads grads;
  const Tensor zero = scalar_like(0, c.g);
  if (c.need_a) grads.a = where(c.b == 0, zero, c.g * c.b * tinytorch::pow(c.a, c.b - 1));
  if (c.need_b) grads.b = where(logical_and(c.a == 0, c.b >= 0), zero, c.g * c.y * tinytorch::log(c.a));
  return grads;
}
// Gradient of maximum and minimum: equal operands get half of it each.
inline BinaryGrads choose(const BinaryContext& c, const Tensor& a_wins) {
  const Tensor zero = scalar_like(0, c.g);
  const Tensor shared = where(c.a == c.b, c.g * 0.5, c.g);
  return {where(a_wins, shared, zero), where(logical_or(logical_not(a_wins), c.a == c.b), shared, zero)};
}
inline BinaryGrads maximum(const BinaryContext& c) { return choose(c, c.a >= c.b); }
inline BinaryGrads minimum(const BinaryContext& c) { return choose(c, c.a <= c.b); }
}  // namespace vjp

}  // namespace tinytorch::inline TT_BUILD
#endif
