// Launch records: which kernels ran, how often, and with which threads, registers and shared memory.
// launches.cuh counts them.
#pragma once

#include <cstdint>
#include <string>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct LaunchRecord {
  std::string kernel;  // "a replayed graph" for a whole graph, "cublasLtMatmul" for kernels of cuBLASLt
  int64_t launches = 0;
  // The last launch's configuration; 0 for kernels of other libraries. The emulator reports 0 registers.
  int threads = 0;           // per block
  int registers = 0;         // per thread
  int64_t shared_bytes = 0;  // per block, static and dynamic
};

// count_launches(true) clears the counts and starts to count the launches of all threads;
// count_launches(false) stops.
void count_launches(bool on);
std::vector<LaunchRecord> launch_records();  // sorted by name

#if !TINYTORCH_WITH_CUDA
inline void count_launches(bool) {}
inline std::vector<LaunchRecord> launch_records() { return {}; }
#endif

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
