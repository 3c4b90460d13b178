// MemoryProfiler: which part of a program holds memory, at each moment and at the peak.
//
//   profiling::Profiler profiler(model);
//   profiling::MemoryProfiler memory(profiler);
//   model.loss(tokens, targets).backward();
//   for (const auto& use : memory.finish(tt::cpu).at_peak) ...   // "blocks.0.attention  attention"  8192
//
// Sees every block that the allocators hand out between construction and finish(): tensors and the kernels'
// own scratch memory. A block belongs to the op that asked for it. What other threads ask for is held
// "elsewhere".
#pragma once

#include <algorithm>
#include <string>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <tinytorch/core/allocation_observer.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/profiling/profiler.hpp>
#include <unordered_map>
#include <vector>

namespace tinytorch::inline TT_BUILD::profiling {

struct MemoryUse {
  std::string owner;  // module and op, as Profiler::where() says
  int64_t bytes = 0;
};

struct MemoryPoint {
  double seconds = 0;  // since the memory profiler began
  int64_t bytes = 0;   // in use from this moment on
};

struct MemoryProfile {
  int64_t before = 0;   // in use when it began: weights, data
  int64_t current = 0;  // at the end
  int64_t peak = 0;
  double peak_seconds = 0;            // when that was
  std::vector<MemoryUse> at_peak;     // who held it, largest first; `before` is one of them
  std::vector<MemoryPoint> timeline;  // one point per block that came or went
};

class MemoryProfiler final : public AllocationObserver {
 public:
  explicit MemoryProfiler(const Profiler& profiler)
      : profiler_(&profiler), start_(clock_()), before_(in_use_now()), outer_(observe_allocations(this)) {}
  ~MemoryProfiler() override { stop(); }
  MemoryProfiler(const MemoryProfiler&) = delete;
  MemoryProfiler& operator=(const MemoryProfiler&) = delete;

  // Stops watching. Of each device as often as wanted.
  MemoryProfile finish(Device device) {
    stop();
    return replay(device);
  }

  // The block belongs to profiler_->where(), if this thread is the one that the profiler observes, else to
  // "elsewhere". It becomes live, and an event.
  void allocated(Device device, const void* block, size_t bytes) override {
    const std::string owner = op_observer() == profiler_ ? profiler_->where() : "elsewhere";
    size_t known = 0;
    while (known < owners_.size() && owners_[known] != owner) ++known;
    if (known == owners_.size()) owners_.push_back(owner);
    live_[block] = static_cast<int32_t>(known);
    events_.push_back({device, clock_() - start_, static_cast<int64_t>(bytes), static_cast<int32_t>(known)});
  }
  // The block's owner, kBefore of one that was not seen to come, holds that much less. Another block may have
  // the same address later.
  void freed(Device device, const void* block, size_t bytes) noexcept override {
    const auto found = live_.find(block);
    const int32_t owner = found == live_.end() ? kBefore : found->second;
    if (found != live_.end()) live_.erase(found);
    events_.push_back({device, clock_() - start_, -static_cast<int64_t>(bytes), owner});
  }

 private:
  static constexpr int32_t kBefore = 0;  // owner of what was there already
  struct Event {
    Device device;
    double seconds;  // since it began
    int64_t change;  // of the bytes in use
    int32_t owner;   // index into owners_
  };
  struct InUse {
    Device device;
    int64_t bytes;
  };

  static std::vector<InUse> in_use_now() {
    std::vector<InUse> all{{cpu, static_cast<int64_t>(allocator_stats().current)}};
    for (int i = 0; i < backend::cuda::device_count(); ++i) {
      const Device device{DeviceType::cuda, i};
      all.push_back({device, static_cast<int64_t>(backend::cuda::memory_stats(i).current)});
    }
    return all;
  }
  int64_t in_use_before(Device device) const {
    for (const InUse& use : before_) {
      if (use.device == device) return use.bytes;
    }
    return 0;
  }

  void stop() {
    if (!profiler_) return;
    observe_allocations(outer_);
    profiler_ = nullptr;
  }

  // What the device's events say, one after the other, starting from what was in use before. The timeline has
  // a point for the start and one for each event; the peak is the first of its highest points, and `at_peak`
  // lists who held memory then, without those who held none, largest first, of equal ones by name.
  MemoryProfile replay(Device device) const {
    MemoryProfile out;
    out.before = in_use_before(device);
    out.current = out.peak = out.before;
    out.timeline.push_back({0, out.before});
    for (const Event& event : events_) {
      if (event.device != device) continue;
      out.current += event.change;
      out.timeline.push_back({event.seconds, out.current});
    }
    const auto peak = std::max_element(out.timeline.begin(), out.timeline.end(),
                                       [](auto a, auto b) { return a.bytes < b.bytes; });
    out.peak = peak->bytes;
    out.peak_seconds = peak->seconds;
    const std::vector<int64_t> held = held_after(device, peak - out.timeline.begin(), out.before);
    for (size_t i = 0; i < owners_.size(); ++i) {
      if (held[i] != 0) out.at_peak.push_back({owners_[i], held[i]});
    }
    std::sort(out.at_peak.begin(), out.at_peak.end(), [](const MemoryUse& a, const MemoryUse& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.owner < b.owner;
    });
    return out;
  }
  // What each owner held after the first `count` events of the device.
  std::vector<int64_t> held_after(Device device, int64_t count, int64_t before) const {
    std::vector<int64_t> held(owners_.size(), 0);
    held[kBefore] = before;
    for (const Event& event : events_) {
      if (count == 0) break;
      if (event.device != device) continue;
      held[static_cast<size_t>(event.owner)] += event.change;
      --count;
    }
    return held;
  }

  const Profiler* profiler_;
  benchmarking::SteadyClock clock_;
  double start_;
  std::vector<InUse> before_;
  std::vector<std::string> owners_{"in use before"};
  std::unordered_map<const void*, int32_t> live_;  // owners of the blocks that are in use
  std::vector<Event> events_;
  AllocationObserver* outer_;  // the last member: events may arrive from here on
};

}  // namespace tinytorch::inline TT_BUILD::profiling
