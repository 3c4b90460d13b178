// Pinned (page-locked) host memory: the device copies from and to it while the host continues.
//
// Locking pages takes longer than most copies, so freed blocks are kept in size classes of powers of two. A
// freed block may still be the source or target of a queued copy, so it is reused only when events of the
// streams that use it are reached.
#pragma once

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <tinytorch/backend/cuda/runtime/capture.cuh>
#include <tinytorch/backend/cuda/runtime/stream.cuh>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cuda {

class PinnedAllocator {
 public:
  static PinnedAllocator& instance() {
    static auto* const the_allocator = new PinnedAllocator;  // never destroyed, like HostAllocator
    return *the_allocator;
  }

  void* allocate(size_t bytes, Loc loc) {
    const size_t capacity = std::bit_ceil(std::max(bytes, kLeast));
    const std::lock_guard lock(mutex_);
    if (!capturing) collect();
    void* address = nullptr;
    auto& list = free_[capacity];
    if (!list.empty()) {
      address = list.back();
      list.pop_back();
      counts_.cached -= capacity;
    } else {
      const RelaxedCapture relaxed;
      check(cudaHostAlloc(&address, capacity, cudaHostAllocPortable), "locking host memory for copies", loc);
      counts_.reserved += capacity;
      counts_.device_calls += 1;
    }
    live_[static_cast<const char*>(address)] = {bytes, capacity, false, {}};
    counts_.allocations += 1;
    counts_.current += bytes;
    counts_.peak = std::max(counts_.peak, counts_.current);
    counts_.peak_reserved = std::max(counts_.peak_reserved, counts_.reserved);
    return address;
  }

  void deallocate(void* address) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(static_cast<const char*>(address));
    if (found == live_.end()) return;
    const Live live = std::move(found->second);
    live_.erase(found);
    counts_.current -= live.bytes;
    if (live.in_graph || capturing) return;  // a graph copies from or to it in each replay: never reused
    Pending pending{address, live.capacity, {}};
    try {
      for (const auto& [device, stream] : live.users) {
        const StreamGuard guard(stream, device);
        pending.events.push_back({device, take_event(device)});
        pending.events.back().event.record();
      }
    } catch (const Error&) {
      return;  // another thread captures that stream: the block is never reused
    }
    pending_.push_back(std::move(pending));
    collect();
  }

  bool contains(const void* address) {
    const std::lock_guard lock(mutex_);
    return find(address) != live_.end();
  }

  // Call after queueing a copy from or to the block on `stream`.
  void note_use(const void* address, int device, StreamHandle* stream) {
    const std::lock_guard lock(mutex_);
    const auto found = find(address);
    if (found == live_.end()) return;
    found->second.in_graph |= capturing != nullptr;
    auto& users = found->second.users;
    const std::pair use{device, stream};
    if (std::find(users.begin(), users.end(), use) == users.end()) users.push_back(use);
  }

  void release_unused() {
    const std::lock_guard lock(mutex_);
    collect();
    for (auto& [capacity, list] : free_) {
      for (void* address : list) {
        (void)cudaFreeHost(address);
        counts_.reserved -= capacity;
        counts_.cached -= capacity;
      }
      list.clear();
    }
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    MemoryStats s = counts_;
    for (const auto& [capacity, list] : free_) {
      if (!list.empty()) s.largest_free = capacity;
    }
    return s;
  }

 private:
  static constexpr size_t kLeast = 4096;  // a page
  struct Live {
    size_t bytes = 0, capacity = 0;
    bool in_graph = false;
    std::vector<std::pair<int, StreamHandle*>> users;  // device, stream
  };
  struct DeviceEvent {
    int device;
    Event event;
  };
  struct Pending {
    void* address;
    size_t capacity;
    std::vector<DeviceEvent> events;
  };
  using LiveBlocks = std::map<const char*, Live>;

  LiveBlocks::iterator find(const void* address) {
    const auto* const at = static_cast<const char*>(address);
    auto found = live_.upper_bound(at);
    if (found == live_.begin()) return live_.end();
    --found;
    return at < found->first + std::max<size_t>(found->second.bytes, 1) ? found : live_.end();
  }
  // Events are reused, because creating one costs as much as queueing a copy.
  Event take_event(int device) {
    std::vector<Event>& idle = idle_events_[device];
    if (idle.empty()) return Event(false, device);
    Event event = std::move(idle.back());
    idle.pop_back();
    return event;
  }
  static bool is_done(const Pending& p) {
    for (const DeviceEvent& e : p.events) {
      if (cudaEventQuery(native(e.event.handle())) == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return false;
      }
    }
    return true;
  }
  void collect() {
    for (size_t k = 0; k < pending_.size();) {
      if (!is_done(pending_[k])) {
        ++k;
        continue;
      }
      Pending done = std::move(pending_[k]);
      if (k + 1 < pending_.size()) pending_[k] = std::move(pending_.back());
      pending_.pop_back();
      for (DeviceEvent& e : done.events) idle_events_[e.device].push_back(std::move(e.event));
      free_[done.capacity].push_back(done.address);
      counts_.cached += done.capacity;
    }
  }

  std::mutex mutex_;
  LiveBlocks live_;
  std::map<size_t, std::vector<void*>> free_;  // by capacity
  std::vector<Pending> pending_;
  std::map<int, std::vector<Event>> idle_events_;  // by device
  MemoryStats counts_;
};

void* allocate_pinned(size_t bytes, Loc loc) { return PinnedAllocator::instance().allocate(bytes, loc); }
void deallocate_pinned(void* block) noexcept { PinnedAllocator::instance().deallocate(block); }
bool is_pinned(const void* block) { return PinnedAllocator::instance().contains(block); }
MemoryStats pinned_stats() { return PinnedAllocator::instance().stats(); }
void release_pinned() { PinnedAllocator::instance().release_unused(); }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
