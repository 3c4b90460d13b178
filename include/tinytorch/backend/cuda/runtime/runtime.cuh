// Defines runtime.hpp over the CUDA runtime API, in parts that each carry one idea. For the one .cu file of a
// program (cuda_impl.cuh); kernels see native.cuh instead, which only declares.
#pragma once

#include <tinytorch/backend/cuda/runtime/allocator.cuh>
#include <tinytorch/backend/cuda/runtime/capture.cuh>
#include <tinytorch/backend/cuda/runtime/copy.cuh>
#include <tinytorch/backend/cuda/runtime/device.cuh>
#include <tinytorch/backend/cuda/runtime/errors.cuh>
#include <tinytorch/backend/cuda/runtime/graph.cuh>
#include <tinytorch/backend/cuda/runtime/launches.cuh>
#include <tinytorch/backend/cuda/runtime/memory_report.cuh>
#include <tinytorch/backend/cuda/runtime/pinned.cuh>
#include <tinytorch/backend/cuda/runtime/range.cuh>
#include <tinytorch/backend/cuda/runtime/replay.cuh>
#include <tinytorch/backend/cuda/runtime/stream.cuh>
