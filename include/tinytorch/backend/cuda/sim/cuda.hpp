// The CUDA emulator. It replaces <cuda_runtime.h> if TINYTORCH_CUDA_SIM is 1.
//
// Kernels are compiled by g++ or clang with -fsanitize=thread and run on the CPU: the threads of a block run
// as fibers (block.hpp), with barriers, shuffles and atomics (functions.hpp) and separate device memory
// (memory.hpp). Every access is checked (access.hpp) and optionally counted (counters.hpp).
#pragma once

#include <tinytorch/core/config.hpp>

#include <tinytorch/backend/cuda/sim/functions.hpp>
#include <tinytorch/backend/cuda/sim/runtime.hpp>

#define threadIdx (::tinytorch::backend::cuda::sim::thread_index())
#define blockIdx (::tinytorch::backend::cuda::sim::block_index())
#define blockDim (::tinytorch::backend::cuda::sim::block_size())
#define gridDim (::tinytorch::backend::cuda::sim::grid_size())
