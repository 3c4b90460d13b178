// Kernels that measure a GPU's peaks: memory bandwidth, and arithmetic throughput in f32.
//
// The frame of a course header: it has the given parts, and includes the functions of tasks 5.12 and 5.13. It
// is cut from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kPeakBlock = 256, kChainsOfThread = 8;

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/peak_kernels.cuh>
