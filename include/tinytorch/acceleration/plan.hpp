// Planning: an offset in one arena for each block of memory, so that blocks that are live at the same time do
// not overlap.
//
// The problem is NP-hard (dynamic storage allocation). Placing the largest block first, at the lowest gap
// that fits, reaches the lower bound, the largest sum of live bytes, on the graphs of all models of this
// library. check_placement() is separate code: it believes no planner.
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

// Offsets that are multiples of `alignment`, a power of two, and the end of the arena: that of its last
// block. Blocks that are live in a common step share no byte. A block may use the memory of another one that
// ends in an earlier step. Greedy by size: blocks in the order of falling size, each at the lowest offset at
// which it overlaps no block that was placed before and lives at the same time. O(n^2) for n blocks. Blocks
// of 0 bytes get offset 0.
inline Placement place(std::span<const LiveBlock> blocks, int64_t alignment = 64) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    if (blocks[a].bytes != blocks[b].bytes) return blocks[a].bytes > blocks[b].bytes;
    return blocks[a].last - blocks[a].first > blocks[b].last - blocks[b].first;
  });
  Placement plan{std::vector<int64_t>(blocks.size(), 0), 0};
  std::vector<size_t> placed;  // by rising offset
  for (const size_t i : order) {
    const LiveBlock& block = blocks[i];
    if (block.bytes == 0) continue;
    int64_t at = 0;
    for (const size_t k : placed) {
      if (blocks[k].last < block.first || block.last < blocks[k].first) continue;
      if (at + block.bytes <= plan.offset[k]) break;  // it fits into the gap before k
      at = std::max(at, align_up(plan.offset[k] + blocks[k].bytes, alignment));
    }
    plan.offset[i] = at;
    plan.bytes = std::max(plan.bytes, at + block.bytes);
    placed.insert(std::ranges::upper_bound(placed, at, {}, [&](size_t k) { return plan.offset[k]; }), i);
  }
  return plan;
}

// The first fault of a placement, or nothing: another number of offsets than of blocks, an offset that is
// negative or not aligned, a block that ends after the arena, or two blocks that share bytes in the same
// step. Blocks of 0 bytes share none. It walks the steps and keeps the live blocks sorted by offset. O(n log
// n).
inline std::optional<std::string> check_placement(std::span<const LiveBlock> blocks, const Placement& plan,
                                                  int64_t alignment = 64) {
  const auto block_name = [&](size_t i) {
    return "block " + std::to_string(i) + " (" + std::to_string(blocks[i].bytes) + " bytes at " +
           std::to_string(plan.offset[i]) + ", steps " + std::to_string(blocks[i].first) + " to " +
           std::to_string(blocks[i].last) + ")";
  };
  if (plan.offset.size() != blocks.size())
    return "the plan has " + std::to_string(plan.offset.size()) + " offsets for " +
           std::to_string(blocks.size()) + " blocks";
  struct Event {
    int step;
    bool begins;
    size_t block;
  };
  std::vector<Event> events;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (plan.offset[i] < 0 || plan.offset[i] % alignment != 0)
      return block_name(i) + " is not at a multiple of " + std::to_string(alignment);
    if (blocks[i].bytes > plan.bytes - plan.offset[i])
      return block_name(i) + " ends after the arena of " + std::to_string(plan.bytes) + " bytes";
    if (blocks[i].bytes == 0) continue;
    events.push_back({blocks[i].first, true, i});
    events.push_back({blocks[i].last + 1, false, i});
  }
  std::ranges::sort(events, [](const Event& a, const Event& b) {
    return a.step != b.step ? a.step < b.step : a.begins < b.begins;
  });
  std::map<int64_t, size_t> live;  // by offset; live blocks do not overlap, so neighbours suffice
  for (const Event& e : events) {
    if (!e.begins) {
      live.erase(plan.offset[e.block]);
      continue;
    }
    const auto next = live.lower_bound(plan.offset[e.block]);
    if (next != live.end() && next->first < plan.offset[e.block] + blocks[e.block].bytes)
      return block_name(e.block) + " overlaps " + block_name(next->second);
    if (next != live.begin()) {
      const size_t before = std::prev(next)->second;
      if (plan.offset[before] + blocks[before].bytes > plan.offset[e.block])
        return block_name(e.block) + " overlaps " + block_name(before);
    }
    live[plan.offset[e.block]] = e.block;
  }
  return std::nullopt;
}

}  // namespace tinytorch::inline TT_BUILD
