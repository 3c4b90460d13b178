// Derivatives of the kernels *_grad, which compute g f'(v): with respect to g they are f'(v), and with
// respect to v they are g f''(v). f'' is composed of differentiable operations.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <cmath>
#include <numbers>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/tensor/primitive.hpp>
#include <tinytorch/tensor/vjp/elementwise.hpp>

namespace tinytorch::inline TT_BUILD::vjp {

// f = x t / 2 + x / 2 with t = tanh(u), u = c (x + a x^3):
//   f'' = (1 - t^2) (u' + x u'' / 2 - x t u'^2)
inline Tensor gelu_tanh_second(const Tensor& x) {
  constexpr double a = 0.044715, c = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const Tensor square = x * x, t = tinytorch::tanh((x + square * x * a) * c);
  const Tensor slope = (square * (3 * a) + 1) * c;
  return (1 - t * t) * (slope + square * (3 * a * c) - x * t * slope * slope);
}
// f = x t with t = tanh(softplus(x)), s = sigmoid(x), d = 1 - t^2: f'' = d s (2 + x (1 - s) - 2 x t s)
inline Tensor mish_second(const Tensor& x) {
  const Tensor s = tinytorch::sigmoid(x), t = tinytorch::tanh(softplus(x));
  return (1 - t * t) * s * (x * (1 - s) - x * t * s * 2 + 2);
}

// f''(v) for the function of fn, or an undefined tensor if it is 0 almost everywhere. For tanh and sigmoid, v
// is the result y, and this is the derivative of f'(v) as a function of y. p0 is the parameter of f.
inline Tensor second_derivative(backend::BinaryFn fn, const Tensor& v, double p0) {
  using backend::BinaryFn;
  switch (fn) {
    case BinaryFn::tanh_grad:
      return v * -2;
    case BinaryFn::sigmoid_grad:
      return 1 - v * 2;
    case BinaryFn::silu_grad: {
      const Tensor s = tinytorch::sigmoid(v);
      return s * (1 - s) * (v * (1 - s * 2) + 2);
    }
    case BinaryFn::gelu_grad: {  // the density of the normal distribution times 2 - x^2
      const double scale = 1 / std::sqrt(2 * std::numbers::pi);
      const Tensor square = v * v;
      return tinytorch::exp(square * -0.5) * (2 - square) * scale;
    }
    case BinaryFn::gelu_tanh_grad:
      return gelu_tanh_second(v);
    case BinaryFn::softplus_grad: {
      const Tensor s = tinytorch::sigmoid(v * p0);
      return s * (1 - s) * p0;
    }
    case BinaryFn::elu_grad:
      return where(v > 0, scalar_like(0, v), tinytorch::exp(minimum(v, scalar_like(0, v))) * p0);
    case BinaryFn::hardswish_grad:
      return where(logical_and(v > -3, v < 3), scalar_like(1.0 / 3, v), scalar_like(0, v));
    case BinaryFn::mish_grad:
      return mish_second(v);
    default:
      return {};
  }
}

// Inputs g, v; output g f'(v). `up` is the gradient of that output.
inline Tensors activation_grad(backend::BinaryFn fn, double p0, const Tensor& up, const Saved& s) {
  if (!backend::is_activation_grad(fn)) fail_no_derivative("comparison");
  const Tensor &g = s.inputs[0], &v = s.inputs[1];
  Tensor by_v;
  if (s.needs_grad[1]) {
    const Tensor second = second_derivative(fn, v, p0);
    by_v = second.defined() ? up * g * second : zeros_like(v);
  }
  return {s.needs_grad[0] ? derivative_times(fn, up, v, p0) : Tensor(), by_v};
}

}  // namespace tinytorch::inline TT_BUILD::vjp
#endif
