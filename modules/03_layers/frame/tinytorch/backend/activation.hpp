// Activation functions and their derivatives for one number, shared by CPU loops and CUDA kernels.
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.1. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/core/error.hpp>  // todo() of the course's starter files
#include <tinytorch/core/scalar_math.hpp>

namespace tinytorch::inline TT_BUILD::backend {

inline constexpr double kSqrtHalf = 0.70710678118654752440;       // 1 / sqrt(2)
inline constexpr double kInvSqrtTwoPi = 0.39894228040143267794;   // 1 / sqrt(2 pi)
inline constexpr double kSqrtTwoOverPi = 0.79788456080286535588;  // sqrt(2 / pi)
inline constexpr double kGeluCubic = 0.044715;

template <class T>
TT_HOST_DEVICE inline T relu_value(T x);  // task 3.1
template <class T>
TT_HOST_DEVICE inline T leaky_relu_value(T x, T slope);  // task 3.1
template <class T, math::Range range = math::Range::all>
TT_HOST_DEVICE inline T sigmoid_value(T x);  // task 3.1
template <class T, math::Range range = math::Range::all>
TT_HOST_DEVICE inline T silu_value(T x);  // task 3.1
template <class T>
TT_HOST_DEVICE inline T silu_derivative(T x);  // task 3.1
template <class T>
TT_HOST_DEVICE inline T gelu_value(T x);  // task 3.1
template <class T>
TT_HOST_DEVICE inline T gelu_derivative(T x);  // task 3.1

// The argument of the tanh in gelu_tanh.
template <class T>
TT_HOST_DEVICE inline T gelu_tanh_inner(T x) {
  return T(kSqrtTwoOverPi) * (x + T(kGeluCubic) * x * x * x);
}
template <class T>
TT_HOST_DEVICE inline T gelu_tanh_value(T x);  // task 3.1
template <class T>
TT_HOST_DEVICE inline T gelu_tanh_derivative(T x);  // task 3.1

}  // namespace tinytorch::inline TT_BUILD::backend

#include <tasks/backend/activation.hpp>
