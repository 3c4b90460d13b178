// The CUDA device as the rest of the library knows it: plain C++, for any compiler.
//
//   queries     is_available(), device_count(), properties(device)
//   memory      allocate() and deallocate() behind every CUDA tensor, memory_stats(), pinned host memory
//   order       streams, events, synchronize(); work goes to the calling thread's current stream
//   profiling   RangeGuard marks a span of time for Nsight (NVTX)
// Handles are opaque pointers. runtime.cuh defines the functions over the CUDA runtime API. In a build
// without CUDA the queries answer "no device" and everything else throws BuiltWithoutCuda (without_cuda.hpp).
#pragma once

#include <tinytorch/backend/cuda/runtime/declarations.hpp>
#include <tinytorch/backend/cuda/runtime/without_cuda.hpp>
