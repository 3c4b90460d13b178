// What Nsight would see of this thread's ranges: each as the stack of names it was opened in.
#pragma once

#include <string>
#include <tinytorch/core/config.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

struct Ranges {
  std::vector<std::string> open;  // names, the outermost first
  std::vector<std::string> seen;  // "module Linear > linear", in the order in which they were opened
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
