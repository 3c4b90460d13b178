// Derivatives of the elementwise ops: plain formulas, one line each.
//
// The chain rule: if y = f(x) is one step of the computation of a loss L, then dL/dx = dL/dy f'(x). Each rule
// below computes this for one op. It gets g = dL/dy and the tensor that the op saved in its forward pass, the
// operand x or the result y, whichever makes the derivative cheap: exp' is y and needs no new exponential.
// The tensor that the op did not save is undefined here. Rules compute with whole tensors: + - * /, where,
// and the functions of tensor/functions.hpp. The frame has examples: neg, square, reciprocal, add and sub.
//
// Task 2.1: exp, log, sqrt, tanh, sigmoid, mul, div, pow. The given parts of this header are in
// modules/02_autograd/frame/tinytorch/tensor/vjp/elementwise.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::vjp {

// y = e^x. Saved: y.
inline Tensor exp(const UnaryContext& c) { return c.g * c.y; }

// y = the natural logarithm of x. Saved: x.
inline Tensor log(const UnaryContext& c) { return c.g / c.x; }

// y = the square root of x. Saved: y.
inline Tensor sqrt(const UnaryContext& c) { return c.g / (c.y * 2); }

// y = tanh(x). Saved: y.
inline Tensor tanh(const UnaryContext& c) { return c.g * (1 - c.y * c.y); }

// y = 1 / (1 + e^-x). Saved: y.
inline Tensor sigmoid(const UnaryContext& c) { return c.g * c.y * (1 - c.y); }

// y = a b. Saved: a and b.
inline BinaryGrads mul(const BinaryContext& c) {
  return {c.need_a ? c.g * c.b : Tensor(), c.need_b ? c.g * c.a : Tensor()};
}

// y = a / b. Saved: a and b.
inline BinaryGrads div(const BinaryContext& c) {
  const Tensor ga = c.g / c.b;
  return {ga, c.need_b ? -(ga * (c.a / c.b)) : Tensor()};
}

// y = a^b: dy/da = b a^(b-1), dy/db = a^b log(a). Saved: a, b and y. Two limits must be taken by hand (with
// where), or 0 times infinity makes NaN of them: dy/da = 0 where b = 0, and dy/db = 0 where a = 0 and b >= 0.
inline BinaryGrads pow(const BinaryContext& c) {
  BinaryGrads grads;
  const Tensor zero = scalar_like(0, c.g);
  if (c.need_a) grads.a = where(c.b == 0, zero, c.g * c.b * tinytorch::pow(c.a, c.b - 1));
  if (c.need_b) grads.b = where(logical_and(c.a == 0, c.b >= 0), zero, c.g * c.y * tinytorch::log(c.a));
  return grads;
}

}  // namespace tinytorch::inline TT_BUILD::vjp
