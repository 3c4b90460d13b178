// CUDA runtime layer: the interface between the library and CUDA devices, in plain C++ for any compiler.
//
//   queries     is_available(), device_count(), properties(device)
//   memory      allocate() and deallocate() behind every CUDA tensor, memory_stats(), pinned host memory
//   order       streams, events, synchronize(); work is queued on the calling thread's current stream
//   profiling   RangeGuard marks a time span for Nsight Systems (NVTX)
//
// Handles are opaque pointers. runtime.cuh defines the functions over the CUDA runtime API. In a build
// without CUDA, queries report that there is no device, and functions that need one throw BuiltWithoutCuda
// (without_cuda.hpp).
#pragma once

#include <tinytorch/backend/cuda/runtime/declarations.hpp>
#include <tinytorch/backend/cuda/runtime/without_cuda.hpp>
