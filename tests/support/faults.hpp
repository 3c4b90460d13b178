// What the emulator says of a broken kernel.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <tinytorch/core/error.hpp>
#include <vector>

namespace test {

// What the launch throws, or "".
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

// Each part is in the text, in this order.
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
