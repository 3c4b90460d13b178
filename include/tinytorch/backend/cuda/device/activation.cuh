// The choice of an activation on the device, where it is known only at run time.
#pragma once

#include <tinytorch/backend/cuda/runtime/native.cuh>
#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Calls f.operator()<fn>() for an activation that is known only at run time.
template <class F>
__device__ __forceinline__ void select_activation(Activation fn, F&& f) {
  switch (fn) {
    case Activation::relu:
      return f.template operator()<Activation::relu>();
    case Activation::silu:
      return f.template operator()<Activation::silu>();
    case Activation::gelu:
      return f.template operator()<Activation::gelu>();
    case Activation::gelu_tanh:
      return f.template operator()<Activation::gelu_tanh>();
    default:
      return f.template operator()<Activation::none>();
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
