// What a .cuh file sees instead of <cuda_runtime.h> when TINYTORCH_CUDA_SIM is 1: the emulator.
//
// The same kernels, compiled by g++ or clang, run on the CPU: every thread of a block in turn (block.hpp),
// with barriers, shuffles and atomics (functions.hpp), on memory of the device's own (memory.hpp), every
// access checked (access.hpp) where the file is compiled with -fsanitize=thread and not linked with it.
#pragma once

#include <tinytorch/core/config.hpp>

#include <tinytorch/backend/cuda/sim/access.hpp>
#include <tinytorch/backend/cuda/sim/functions.hpp>
#include <tinytorch/backend/cuda/sim/runtime.hpp>
