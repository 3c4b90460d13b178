// Backward pass of an activation, dx = dy f'(v), by the kernel for binary functions: each element is read
// and written once. Contract: backend/cpu/activation_grad.hpp.
#pragma once

#include <tinytorch/backend/cuda/kernels/elementwise.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void activation_grad(BinaryFn fn, const View& dx, const View& dy, const View& v, double p0) {
  binary(fn, dx, dy, v, p0);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
