// MemoryProfiler: the memory that each part of a program holds, over time and at the peak.
//
// The frame of a course header: it has the given parts, and includes the functions of task 5.5. It is cut
// from the library's header by modules/frames.py.
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

  inline void allocated(Device device, const void* block, size_t bytes) override;       // task 5.5
  inline void freed(Device device, const void* block, size_t bytes) noexcept override;  // task 5.5

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

  MemoryProfile replay(Device device) const;                                            // task 5.5
  std::vector<int64_t> held_after(Device device, int64_t count, int64_t before) const;  // task 5.5

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

#include <tasks/profiling/memory.hpp>
