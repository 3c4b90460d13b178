// The clock of all measurements.
#pragma once

#include <chrono>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD::benchmarking {

// Seconds of the monotonic clock. It is a function object, so that tests can pass a simulated clock.
struct SteadyClock {
  double operator()() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

}  // namespace tinytorch::inline TT_BUILD::benchmarking
