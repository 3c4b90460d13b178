// The backward pass of an activation y = f(x) in one kernel: dx = dy f'(x), element by element.
//
// The frame of a course header: it has the given parts, and includes the functions of task 2.8.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/functors.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kActivationThreads = 256;

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/activation_grad.cuh>
