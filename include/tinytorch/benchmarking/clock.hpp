// The clock that everything is measured by.
#pragma once

#include <chrono>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD::benchmarking {

// Seconds on the monotonic clock. A function object, so that tests can bring a clock of their own.
struct SteadyClock {
  double operator()() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

}  // namespace tinytorch::inline TT_BUILD::benchmarking
