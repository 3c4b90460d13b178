// Launches: which kernels ran, how often, and what each asked of a multiprocessor. launches.cuh counts them.
#pragma once

#include <cstdint>
#include <string>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct LaunchRecord {
  std::string kernel;  // "a replayed graph" for all kernels of one, "cublasLtMatmul" for the rival's
  int64_t launches = 0;
  // Of the last launch; 0 where the kernel is not this library's. The emulator knows no registers.
  int threads = 0;           // per block
  int registers = 0;         // per thread
  int64_t shared_bytes = 0;  // per block, static and dynamic
};

// Counts the launches of all threads from now on, from zero, or stops.
void count_launches(bool on);
std::vector<LaunchRecord> launch_records();  // by name

#if !TINYTORCH_WITH_CUDA
inline void count_launches(bool) {}
inline std::vector<LaunchRecord> launch_records() { return {}; }
#endif

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
