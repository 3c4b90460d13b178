// Planning: an offset in one arena for each block of memory, so that blocks that are live at the same time do
// not overlap.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.13. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tinytorch/acceleration/liveness.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct Placement {
  std::vector<int64_t> offset;  // in bytes, one per block
  int64_t bytes = 0;            // of the arena
};

// `bytes` rounded up to a multiple of `alignment`, which is a power of two.
constexpr int64_t align_up(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

inline Placement place(std::span<const LiveBlock> blocks, int64_t alignment = 64);  // task 6.13
inline std::optional<std::string> check_placement(std::span<const LiveBlock> blocks, const Placement& plan,
                                                  int64_t alignment = 64);  // task 6.13

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/acceleration/plan.hpp>
