// Profiler ranges of this thread, as Nsight Systems would show them: each range with the names of the ranges
// around it.
#pragma once

#include <string>
#include <tinytorch/core/config.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

struct Ranges {
  std::vector<std::string> open;  // names, outermost first
  std::vector<std::string> seen;  // "module Linear > linear", in the order of opening
};
inline Ranges& ranges() {
  thread_local Ranges of_thread;
  return of_thread;
}

inline void record_range(const char* name) {
  Ranges& r = ranges();
  r.open.emplace_back(name);
  std::string stack;
  for (const std::string& outer : r.open) stack += (stack.empty() ? "" : " > ") + outer;
  r.seen.push_back(std::move(stack));
}
inline void end_range() { ranges().open.pop_back(); }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
