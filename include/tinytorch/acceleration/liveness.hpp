// Liveness: from which step to which step each value needs its memory, and how many bytes are live at each
// step.
//
// The largest sum over all steps is the peak of this order of steps: no placement in memory can need less. An
// eager run, which frees a tensor when its last handle goes, comes close to it, so a lower peak needs another
// order, fused steps, results in place of operands, or recomputation.
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

// The sum of the bytes of the blocks that are live, for each of `steps` steps. A block counts during its
// first and its last step, too, which are below `steps`. O(steps + blocks).
inline std::vector<int64_t> timeline(std::span<const LiveBlock> blocks, int steps) {
  std::vector<int64_t> bytes(static_cast<size_t>(steps) + 1, 0);
  for (const LiveBlock& b : blocks) {
    bytes[static_cast<size_t>(b.first)] += b.bytes;
    bytes[static_cast<size_t>(b.last) + 1] -= b.bytes;
  }
  for (size_t s = 1; s < bytes.size(); ++s) bytes[s] += bytes[s - 1];
  bytes.pop_back();
  return bytes;
}

inline int64_t peak(std::span<const int64_t> timeline) {
  return timeline.empty() ? 0 : *std::ranges::max_element(timeline);
}

// last_uses(graph)[v] is the number of the last step that reads value v or writes it in place
// (OpGraph::writes_in_place), directly or through a view. It is the number of steps if v is a result of the
// graph, which outlives it, and -1 if no step uses v. Views have the entry of their root. A step that makes a
// view reads no element, and operand -1 stands for no value.
inline std::vector<int> last_uses(const OpGraph& graph) {
  std::vector<int> last(graph.values.size(), -1);
  for (size_t s = 0; s < graph.steps.size(); ++s) {
    if (graph.steps[s].is_view()) continue;  // reads no element
    for (const int v : graph.steps[s].inputs) {
      if (v >= 0) last[static_cast<size_t>(graph.root(v))] = static_cast<int>(s);
    }
    for (size_t k = 0; k < graph.steps[s].outputs.size(); ++k) {
      if (graph.writes_in_place(s, k))
        last[static_cast<size_t>(graph.root(graph.steps[s].outputs[k]))] = static_cast<int>(s);
    }
  }
  for (const int v : graph.outputs)
    last[static_cast<size_t>(graph.root(v))] = static_cast<int>(graph.steps.size());
  for (size_t v = 0; v < last.size(); ++v)
    last[v] = last[static_cast<size_t>(graph.root(static_cast<int>(v)))];
  return last;
}

// The values that need memory while the graph runs, with the steps during which they need it.
struct Liveness {
  std::vector<int> values;
  std::vector<LiveBlock> intervals;  // one per value
  int steps = 0;

  std::vector<int64_t> timeline() const { return tinytorch::timeline(intervals, steps); }
  int64_t peak() const { return tinytorch::peak(timeline()); }
};

// Every computed value that a step makes, in the order of their numbers. It needs the bytes of its elements
// from that step to its last use. A value that nothing reads needs them during its own step, and a result of
// the graph to the last step. Arguments, externals and views need no memory of their own.
inline Liveness liveness(const OpGraph& graph) {
  Liveness out;
  out.steps = static_cast<int>(graph.steps.size());
  const std::vector<int> last = last_uses(graph);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const GraphValue& x = graph.values[v];
    if (x.kind != ValueKind::computed || x.step < 0) continue;
    out.values.push_back(static_cast<int>(v));
    out.intervals.push_back({bytes_of(x), x.step, std::min(std::max(last[v], x.step), out.steps - 1)});
  }
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
