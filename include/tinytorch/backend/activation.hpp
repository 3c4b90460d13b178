// Activation functions and their derivatives for one number, shared by CPU loops and CUDA kernels.
//
//   sigmoid  s(x) = 1 / (1 + e^-x)     silu  x s(x)     gelu  x Phi(x), Phi the normal distribution function
//   gelu_tanh  x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), an approximation of gelu
//
// T is float or double; relu also takes integers. The functions have no loops, and ?: instead of if, so that
// a loop over them vectorizes. NaN gives NaN. math::Range states what is known of the argument of math::exp()
// and does not change a result.
// Sources: Hendrycks and Gimpel, "Gaussian error linear units", 2016; Elfwing, Uchibe, Doya,
// "Sigmoid-weighted linear units", 2018.
#pragma once

#include <tinytorch/core/error.hpp>  // todo() of the course's starter files
#include <tinytorch/core/scalar_math.hpp>

namespace tinytorch::inline TT_BUILD::backend {

inline constexpr double kSqrtHalf = 0.70710678118654752440;       // 1 / sqrt(2)
inline constexpr double kInvSqrtTwoPi = 0.39894228040143267794;   // 1 / sqrt(2 pi)
inline constexpr double kSqrtTwoOverPi = 0.79788456080286535588;  // sqrt(2 / pi)
inline constexpr double kGeluCubic = 0.044715;

// max(x, 0); NaN stays NaN.
template <class T>
TT_HOST_DEVICE inline T relu_value(T x) {
  return x < T(0) ? T(0) : x;
}
// x where x >= 0, else slope x.
template <class T>
TT_HOST_DEVICE inline T leaky_relu_value(T x, T slope) {
  return x < T(0) ? x * slope : x;
}

// 1 / (1 + e^-x). For x = -100, e^-x overflows float, but the result must be e^-100: so the power is of -|x|,
// which cannot overflow, for both signs.
template <class T, math::Range range = math::Range::all>
TT_HOST_DEVICE inline T sigmoid_value(T x) {
  const T e = math::exp<range>(x < T(0) ? x : -x);
  const T r = T(1) / (T(1) + e);
  return x < T(0) ? e * r : r;
}

// x s(x), and its derivative s(x) (1 + x (1 - s(x))).
template <class T, math::Range range = math::Range::all>
TT_HOST_DEVICE inline T silu_value(T x) {
  return x * sigmoid_value<T, range>(x);
}
template <class T>
TT_HOST_DEVICE inline T silu_derivative(T x) {
  const T s = sigmoid_value(x);
  return s * (T(1) + x * (T(1) - s));
}

// x Phi(x), Phi(x) = (1 + erf(x / sqrt(2))) / 2, and its derivative Phi(x) + x phi(x), phi(x) = e^(-x^2 / 2)
// / sqrt(2 pi).
template <class T>
TT_HOST_DEVICE inline T gelu_value(T x) {
  return x * math::normal_cdf(x);
}
template <class T>
TT_HOST_DEVICE inline T gelu_derivative(T x) {
  return math::normal_cdf(x) + x * T(kInvSqrtTwoPi) * math::exp<math::Range::below_zero>(T(-0.5) * x * x);
}

// The argument of the tanh in gelu_tanh.
template <class T>
TT_HOST_DEVICE inline T gelu_tanh_inner(T x) {
  return T(kSqrtTwoOverPi) * (x + T(kGeluCubic) * x * x * x);
}
// x / 2 (1 + t), t = tanh(gelu_tanh_inner(x)), and its derivative by the product rule and the chain rule; the
// derivative of tanh is 1 - t^2.
template <class T>
TT_HOST_DEVICE inline T gelu_tanh_value(T x) {
  return T(0.5) * x * (T(1) + math::tanh(gelu_tanh_inner(x)));
}
template <class T>
TT_HOST_DEVICE inline T gelu_tanh_derivative(T x) {
  const T t = math::tanh(gelu_tanh_inner(x));
  const T inner = T(kSqrtTwoOverPi) * (T(1) + T(3 * kGeluCubic) * x * x);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner;
}

}  // namespace tinytorch::inline TT_BUILD::backend
