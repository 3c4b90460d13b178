// Definitions of the functions of runtime.hpp over the CUDA runtime API. Only the one .cu file of a program
// includes this file (by cuda_impl.cuh); kernels include native.cuh, which has declarations only.
#pragma once

#include <tinytorch/backend/cuda/runtime/allocator.cuh>
#include <tinytorch/backend/cuda/runtime/capture.cuh>
#include <tinytorch/backend/cuda/runtime/copy.cuh>
#include <tinytorch/backend/cuda/runtime/device.cuh>
#include <tinytorch/backend/cuda/runtime/errors.cuh>
#include <tinytorch/backend/cuda/runtime/graph.cuh>
#include <tinytorch/backend/cuda/runtime/launches.cuh>
#include <tinytorch/backend/cuda/runtime/loaded_kernel.cuh>
#include <tinytorch/backend/cuda/runtime/memory_report.cuh>
#include <tinytorch/backend/cuda/runtime/pinned.cuh>
#include <tinytorch/backend/cuda/runtime/range.cuh>
#include <tinytorch/backend/cuda/runtime/replay.cuh>
#include <tinytorch/backend/cuda/runtime/stream.cuh>
