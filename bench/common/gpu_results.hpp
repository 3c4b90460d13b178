// The head of a file of results of a GPU: the machine, the commit, the device and its driver.
#pragma once

#include <common/provenance.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>

namespace bench {

// Throws std::runtime_error with `hint` if there is no CUDA device.
inline void require_gpu(const std::string& hint) {
  if (!tinytorch::backend::cuda::is_available())
    throw std::runtime_error("no CUDA device is available\n  hint: " + hint);
}

inline nlohmann::json gpu_results(int64_t rounds) {
  namespace cuda = tinytorch::backend::cuda;
  return {{"machine", provenance()},
          {"device", cuda::properties(0).name},
          {"cuda_driver", cuda::driver_version()},
          {"rounds", rounds}};
}

}  // namespace bench
