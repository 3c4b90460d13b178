// NVTX ranges: named time spans for Nsight Systems. NVTX is a header-only part of the CUDA toolkit that loads
// the profiler's library only if a profiler is attached. Without the headers, ranges do nothing; the emulator
// records them.
#pragma once

#include <cstdlib>
#include <string>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>

#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/ranges.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {
void push_range(const char* name) { sim::record_range(name); }
void pop_range() { sim::end_range(); }
}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#elif __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace tinytorch::inline TT_BUILD::backend::cuda {
void push_range(const char* name) { nvtxRangePushA(name); }
void pop_range() { nvtxRangePop(); }
}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#else

namespace tinytorch::inline TT_BUILD::backend::cuda {
void push_range(const char*) {}
void pop_range() {}
}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#endif

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline const bool ranges_asked_for = [] {
  const char* const asked = std::getenv("TINYTORCH_RANGES");
  const bool on = asked && std::string(asked) != "0";
  if (on) show_ranges(true);
  return on;
}();

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
