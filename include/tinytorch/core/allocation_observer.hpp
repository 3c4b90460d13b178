// Who sees blocks of memory come and go, on every device: a memory profiler. Unobserved, a block costs one
// load.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <tinytorch/core/device.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD {

// Called by the thread that allocates or frees, under the allocator's lock: it must not use tensors itself.
class AllocationObserver {
 public:
  virtual ~AllocationObserver() = default;
  virtual void allocated(Device device, const void* block, size_t bytes) = 0;  // bytes as requested
  virtual void freed(Device device, const void* block, size_t bytes) noexcept = 0;
};

namespace detail {
struct AllocationEvents {
  std::atomic<bool> observed{false};
  std::mutex mutex;
  AllocationObserver* observer = nullptr;
};
inline AllocationEvents allocation_events;
}  // namespace detail

// The process's observer from now on, null for none; returns the one before. No thread is inside that one any
// more when this returns, so it may be destroyed.
inline AllocationObserver* observe_allocations(AllocationObserver* observer) {
  detail::AllocationEvents& events = detail::allocation_events;
  const std::lock_guard lock(events.mutex);
  events.observed.store(observer != nullptr, std::memory_order_relaxed);
  return std::exchange(events.observer, observer);
}

// For allocators, before another thread can get the same block.
inline void note_allocated(Device device, const void* block, size_t bytes) {
  detail::AllocationEvents& events = detail::allocation_events;
  if (!events.observed.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(events.mutex);
  if (events.observer) events.observer->allocated(device, block, bytes);
}
inline void note_freed(Device device, const void* block, size_t bytes) noexcept {
  detail::AllocationEvents& events = detail::allocation_events;
  if (!events.observed.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(events.mutex);
  if (events.observer) events.observer->freed(device, block, bytes);
}

}  // namespace tinytorch::inline TT_BUILD
