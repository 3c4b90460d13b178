// Hook for memory profilers, called on each allocation and free on every device. Without an observer, an
// allocation costs one extra atomic load.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <tinytorch/core/device.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD {

// The calls come from the thread that allocates or frees, while the allocator's lock is held. An observer
// must therefore not create or free tensors itself.
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

// Sets the observer of the process (null removes it) and returns the previous one. When this returns, no
// thread is still inside the previous observer, so it may be destroyed.
inline AllocationObserver* observe_allocations(AllocationObserver* observer) {
  detail::AllocationEvents& events = detail::allocation_events;
  const std::lock_guard lock(events.mutex);
  events.observed.store(observer != nullptr, std::memory_order_relaxed);
  return std::exchange(events.observer, observer);
}

// Called by allocators, before another thread can get the same block.
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
