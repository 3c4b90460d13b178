// Defines runtime.hpp over the CUDA runtime API, in parts that each carry one idea. For the one .cu file of a
// program (cuda_impl.cuh); kernels see native.cuh instead, which only declares.
#pragma once

#include <tinytorch/backend/cuda/allocator.cuh>
#include <tinytorch/backend/cuda/capture.cuh>
#include <tinytorch/backend/cuda/copy.cuh>
#include <tinytorch/backend/cuda/device.cuh>
#include <tinytorch/backend/cuda/errors.cuh>
#include <tinytorch/backend/cuda/graph.cuh>
#include <tinytorch/backend/cuda/launches.cuh>
#include <tinytorch/backend/cuda/memory_report.cuh>
#include <tinytorch/backend/cuda/pinned.cuh>
#include <tinytorch/backend/cuda/range.cuh>
#include <tinytorch/backend/cuda/replay.cuh>
#include <tinytorch/backend/cuda/stream.cuh>
