// The spans in which a GPU worked for a scope, such as a module, from the device times of the scope's ops.
//
// The host leaves a module's scope long before the GPU begins its ops. On the device's time line a scope has
// a span for each run of its ops, from the start of the first to the end of the last, including gaps. A run
// ends at an op of another scope or of the other pass, so a module has one span in the forward pass and
// usually one in the backward pass. Spans nest as scopes do.
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

// The scopes from the outermost one below the root down to `scope` itself.
inline std::vector<int32_t> scopes_down_to(const Profile& profile, int32_t scope) {
  std::vector<int32_t> path;
  for (; scope > 0; scope = profile.scopes[static_cast<size_t>(scope)].parent) path.push_back(scope);
  std::reverse(path.begin(), path.end());
  return path;
}

// The outermost ops on GPUs, sorted by device and start time.
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

// The spans in the order in which they began, outer ones first.
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
