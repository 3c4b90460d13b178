// A bias and an activation as one kernel, forward and backward (contract: backend/cpu/bias_activation.hpp).
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.20.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/functors.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kBiasThreads = 256;
inline constexpr int kBiasLines = kBiasThreads / kWarp;  // rows that a block of the gradient visits at a time

// f(x)
template <class C>
__device__ C activated(Activation fn, C x) {
  switch (fn) {
    case Activation::relu:
      return unary_value<UnaryFn::relu, C>(x, C(0), C(0));
    case Activation::silu:
      return unary_value<UnaryFn::silu, C>(x, C(0), C(0));
    case Activation::gelu:
      return unary_value<UnaryFn::gelu, C>(x, C(0), C(0));
    case Activation::gelu_tanh:
      return unary_value<UnaryFn::gelu_tanh, C>(x, C(0), C(0));
    default:
      return x;
  }
}
// g f'(x)
template <class C>
__device__ C activated_grad(Activation fn, C g, C x) {
  switch (fn) {
    case Activation::relu:
      return binary_value<BinaryFn::relu_grad, C>(g, x, C(0));
    case Activation::silu:
      return binary_value<BinaryFn::silu_grad, C>(g, x, C(0));
    case Activation::gelu:
      return binary_value<BinaryFn::gelu_grad, C>(g, x, C(0));
    case Activation::gelu_tanh:
      return binary_value<BinaryFn::gelu_tanh_grad, C>(g, x, C(0));
    default:
      return g;
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/bias_activation.cuh>
