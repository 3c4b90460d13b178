// Helpers for tests of broken kernels on the emulator.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <tinytorch/core/error.hpp>
#include <vector>

namespace test {

// The message that the launch throws, or "".
template <class... Parameters, class... Arguments>
std::string fault_of(void (*kernel)(Parameters...), const tinytorch::backend::cuda::LaunchConfig& config,
                     Arguments... arguments) {
  try {
    tinytorch::backend::cuda::launch(kernel, config, arguments...);
  } catch (const tinytorch::Error& e) {
    return e.what();
  }
  return "";
}

// True if the text contains all parts, in this order.
inline bool tells(const std::string& text, const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    at = text.find(part, at);
    if (at == std::string::npos) {
      MESSAGE("not told: " << part << "\n" << text);
      return false;
    }
    at += part.size();
  }
  return true;
}

}  // namespace test
