// Liveness: from which step to which step each value needs its memory, and how many bytes are live at each
// step.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.12. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <span>
#include <tinytorch/acceleration/graph.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// A block of memory that is in use from the beginning of step `first` to the end of step `last`.
struct LiveBlock {
  int64_t bytes = 0;
  int first = 0, last = 0;
};

inline std::vector<int64_t> timeline(std::span<const LiveBlock> blocks, int steps);  // task 6.12

inline int64_t peak(std::span<const int64_t> timeline) {
  return timeline.empty() ? 0 : *std::ranges::max_element(timeline);
}

inline std::vector<int> last_uses(const OpGraph& graph);  // task 6.12

// The values that need memory while the graph runs, with the steps during which they need it.
struct Liveness {
  std::vector<int> values;
  std::vector<LiveBlock> intervals;  // one per value
  int steps = 0;

  std::vector<int64_t> timeline() const { return tinytorch::timeline(intervals, steps); }
  int64_t peak() const { return tinytorch::peak(timeline()); }
};

inline Liveness liveness(const OpGraph& graph);  // task 6.12

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/acceleration/liveness.hpp>
