// What NVRTC compiles for.
#pragma once

#include <string>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>

namespace tinymlperf::device {

// "sm_90a": with what only this generation has.
inline std::string architecture_of(const tinytorch::backend::cuda::DeviceProperties& p) {
  return "sm_" + std::to_string(10 * p.major + p.minor) + (p.major >= 9 ? "a" : "");
}

}  // namespace tinymlperf::device
