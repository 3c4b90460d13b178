// PLACE OF runtime.cuh (branch rt): definitions of runtime.hpp.
#pragma once
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/cuda.hpp>
#else
#include <cuda_runtime.h>
#endif
#include <tinytorch/backend/cuda/runtime.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline void check(cudaError_t error, const char* what, Loc loc = Loc::current()) {
  if (error != cudaSuccess) fail("TT-CUDA-03", std::string(what) + ": " + cudaGetErrorString(error), loc);
}
inline cudaStream_t native_stream() { return nullptr; }
inline void check_launch(const void*) { check(cudaGetLastError(), "kernel launch"); }
inline void* allocate(size_t bytes, int, Loc loc) {
  void* p = nullptr;
  check(cudaMalloc(&p, bytes ? bytes : 1), "allocation", loc);
  return p;
}
inline void deallocate(void* block, size_t, int) { cudaFree(block); }
inline void copy_bytes(void* to, Device, const void* from, Device, size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copy");
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
