// What a .cuh file sees instead of <cuda_runtime.h> when TINYTORCH_CUDA_SIM is 1: the emulator.
//
// The same kernels, compiled by g++ or clang with -fsanitize=thread, run on the CPU: every thread of a block
// in turn (block.hpp), with barriers, shuffles and atomics (functions.hpp), on memory of the device's own
// (memory.hpp), every access checked (access.hpp) and, when asked for, counted (counters.hpp).
#pragma once

#include <tinytorch/core/config.hpp>

#include <tinytorch/backend/cuda/sim/functions.hpp>
#include <tinytorch/backend/cuda/sim/runtime.hpp>

#define threadIdx (::tinytorch::backend::cuda::sim::thread_index())
#define blockIdx (::tinytorch::backend::cuda::sim::block_index())
#define blockDim (::tinytorch::backend::cuda::sim::block_size())
#define gridDim (::tinytorch::backend::cuda::sim::grid_size())
