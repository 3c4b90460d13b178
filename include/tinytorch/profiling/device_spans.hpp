// When a GPU worked for a module: scopes as the device saw them, from the times of their ops.
//
// The host has left a module's scope long before the GPU begins with its ops. On the device's line a scope
// has a span for each run of ops that it holds: from the first one's start to the last one's end, the gaps
// between them included. A run ends where an op of another scope comes in between, or of the other pass: a
// module has one span in the forward pass and, as a rule, one in the backward pass. Spans nest as the scopes
// do.
#pragma once

#include <tinytorch/profiling/profile.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

struct DeviceSpan {
  int32_t scope = 0;  // index into Profile::scopes
  bool backward = false;
  double start = 0;  // since the profile began
  double seconds = 0;
};

namespace detail {

// From the outermost scope within the whole to `scope` itself.
inline std::vector<int32_t> scopes_down_to(const Profile& profile, int32_t scope) {
  std::vector<int32_t> path;
  for (; scope > 0; scope = profile.scopes[static_cast<size_t>(scope)].parent) path.push_back(scope);
  std::reverse(path.begin(), path.end());
  return path;
}

// Of the ops that no other called, on GPUs: device by device, in the order in which they ran.
inline std::vector<const OpRecord*> in_device_order(const Profile& profile) {
  std::vector<const OpRecord*> ops;
  for (const OpRecord& op : profile.ops)
    if (op.device.is_cuda() && op.parent < 0) ops.push_back(&op);
  std::stable_sort(ops.begin(), ops.end(), [](const OpRecord* a, const OpRecord* b) {
    return std::pair(a->device.index, a->device_start) < std::pair(b->device.index, b->device_start);
  });
  return ops;
}

}  // namespace detail

// In the order in which they began, outer ones first.
inline std::vector<DeviceSpan> device_spans(const Profile& profile) {
  std::vector<DeviceSpan> spans;
  std::vector<size_t> open;  // into spans, the outermost first
  const OpRecord* last = nullptr;
  for (const OpRecord* op : detail::in_device_order(profile)) {
    if (last && (op->backward != last->backward || op->device != last->device)) open.clear();
    last = op;
    const std::vector<int32_t> path = detail::scopes_down_to(profile, op->scope);
    size_t common = 0;
    while (common < std::min(open.size(), path.size()) && spans[open[common]].scope == path[common]) ++common;
    open.resize(common);
    for (size_t i = common; i < path.size(); ++i) {
      open.push_back(spans.size());
      spans.push_back({path[i], op->backward, op->device_start, 0});
    }
    const double end = op->device_start + op->device_seconds;
    for (const size_t i : open) spans[i].seconds = std::max(spans[i].seconds, end - spans[i].start);
  }
  return spans;
}

}  // namespace tinytorch::inline TT_BUILD::profiling
