// MemoryProfiler: the memory that each part of a program holds, over time and at the peak.
//
//   profiling::Profiler profiler(model);
//   profiling::MemoryProfiler memory(profiler);
//   model.loss(tokens, targets).backward();
//   for (const auto& use : memory.finish(tt::cpu).at_peak) ...   // "blocks.0.attention attention"  8192
//
// It observes every block of the allocators between construction and finish(): tensors and the kernels'
// scratch buffers. A block belongs to the op that allocated it. The owner of blocks of other threads is
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
  std::string owner;  // module and op, from Profiler::where()
  int64_t bytes = 0;
};

struct MemoryPoint {
  double seconds = 0;  // since the memory profiler began
  int64_t bytes = 0;   // bytes in use from this moment on
};

struct MemoryProfile {
  int64_t before = 0;   // bytes in use at the start: weights, data
  int64_t current = 0;  // bytes in use at the end
  int64_t peak = 0;
  double peak_seconds = 0;            // time of the peak
  std::vector<MemoryUse> at_peak;     // bytes by owner, largest first; includes "in use before"
  std::vector<MemoryPoint> timeline;  // the start, then one point per allocation and free
};

class MemoryProfiler final : public AllocationObserver {
 public:
  explicit MemoryProfiler(const Profiler& profiler)
      : profiler_(&profiler), start_(clock_()), before_(in_use_now()), outer_(observe_allocations(this)) {}
  ~MemoryProfiler() override { stop(); }
  MemoryProfiler(const MemoryProfiler&) = delete;
  MemoryProfiler& operator=(const MemoryProfiler&) = delete;

  // Stops observing, and returns the profile of a device. It can be called for several devices.
  MemoryProfile finish(Device device) {
    stop();
    return replay(device);
  }

  // Adds a live block and an event. The owner is profiler_->where() if this thread is observed by the
  // profiler, else "elsewhere".
  void allocated(Device device, const void* block, size_t bytes) override {
    const std::string owner = op_observer() == profiler_ ? profiler_->where() : "elsewhere";
    size_t known = 0;
    while (known < owners_.size() && owners_[known] != owner) ++known;
    if (known == owners_.size()) owners_.push_back(owner);
    live_[block] = static_cast<int32_t>(known);
    events_.push_back({device, clock_() - start_, static_cast<int64_t>(bytes), static_cast<int32_t>(known)});
  }
  // Subtracts the bytes from the block's owner, which is kBefore for a block that was allocated before. A
  // later block may have the same address.
  void freed(Device device, const void* block, size_t bytes) noexcept override {
    const auto found = live_.find(block);
    const int32_t owner = found == live_.end() ? kBefore : found->second;
    if (found != live_.end()) live_.erase(found);
    events_.push_back({device, clock_() - start_, -static_cast<int64_t>(bytes), owner});
  }

 private:
  static constexpr int32_t kBefore = 0;  // owner of the memory that was in use before
  struct Event {
    Device device;
    double seconds;  // since the start
    int64_t change;  // change of the bytes in use
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

  // Replays the events of the device, starting with the memory in use before. The timeline has a point for
  // the start and one per event; the peak is the first of its highest points. `at_peak` lists the owners with
  // memory at that time, largest first, then by name.
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
  // The bytes of each owner after the first `count` events of the device.
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
  std::unordered_map<const void*, int32_t> live_;  // owner of each live block
  std::vector<Event> events_;
  AllocationObserver* outer_;  // last member, because events may arrive once it is initialized
};

}  // namespace tinytorch::inline TT_BUILD::profiling
