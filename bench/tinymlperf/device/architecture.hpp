// The GPU architecture for which NVRTC compiles.
#pragma once

#include <string>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>

namespace tinymlperf::device {

// Returns "sm_80", for example. From compute capability 9 on the name ends in "a" ("sm_90a"), which allows
// instructions that only this architecture has.
inline std::string architecture_of(const tinytorch::backend::cuda::DeviceProperties& p) {
  return "sm_" + std::to_string(10 * p.major + p.minor) + (p.major >= 9 ? "a" : "");
}

}  // namespace tinymlperf::device
