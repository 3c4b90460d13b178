// Host memory: 64-byte aligned blocks, counted, and kept for reuse.
//
// A freed block waits in a list of its size class, because returning large blocks to the system costs a page
// fault per 4 KiB at the next use (about as long as computing on them). Classes are quarter steps between
// powers of two, so at most 25 % of a block is unused. What is kept is at most 1 GiB, or half of what was
// once in use: a training step gives its gradients back at once, and needs them again. `current` and `peak`
// count requested bytes in use, not the cache.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <tinytorch/core/allocation_observer.hpp>
#include <tinytorch/core/error.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct AllocatorStats {
  size_t current = 0;      // bytes in use by live tensors
  size_t peak = 0;         // largest value of current since the last reset_peak()
  size_t cached = 0;       // bytes held for reuse
  size_t allocations = 0;  // number of requests so far
  size_t from_system = 0;  // how many of them no cached block could serve
};

// A mutex for a few instructions: without system calls it costs one atomic operation instead of two, and
// whoever has to wait lets others run.
class SpinLock {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

class HostAllocator {
 public:
  static constexpr size_t kAlignment = 64;                // one cache line, one AVX-512 vector
  static constexpr size_t kCacheLimit = size_t{1} << 30;  // bytes that are kept for reuse in any case
  static constexpr bool kReuse = !TT_ASAN;                // so that AddressSanitizer sees a use after free

  static HostAllocator& instance() {
    static auto* the_allocator = new HostAllocator;  // never destroyed: static tensors may outlive main
    return *the_allocator;
  }

  void* allocate(size_t bytes, Loc loc = Loc::current()) {
    const auto [index, capacity] = size_class(bytes);
    {
      const std::lock_guard lock(lock_);
      stats_.allocations += 1;
      auto& list = free_[index];
      if (!list.empty()) {
        void* block = list.back();
        list.pop_back();
        stats_.cached -= capacity;
        count(block, bytes);
        return block;
      }
      stats_.from_system += 1;
    }
    void* block = std::aligned_alloc(kAlignment, capacity);
    if (!block) {
      release_cached();
      block = std::aligned_alloc(kAlignment, capacity);
    }
    if (!block) report_exhaustion(bytes, loc);
    const std::lock_guard lock(lock_);
    count(block, bytes);
    return block;
  }

  void deallocate(void* block, size_t bytes) {
    if (!block) return;
    const auto [index, capacity] = size_class(bytes);
    {
      const std::lock_guard lock(lock_);
      stats_.current -= bytes;
      note_freed(cpu, block, bytes);
      if (kReuse && stats_.cached + capacity <= std::max(kCacheLimit, std::max(highest_, stats_.peak) / 2)) {
        free_[index].push_back(block);
        stats_.cached += capacity;
        return;
      }
    }
    std::free(block);
  }

  // Gives every cached block back to the system.
  void release_cached() {
    const std::lock_guard lock(lock_);
    for (auto& list : free_) {
      for (void* block : list) std::free(block);
      list.clear();
    }
    stats_.cached = 0;
  }
  AllocatorStats stats() const {
    const std::lock_guard lock(lock_);
    return stats_;
  }
  void reset_peak() {
    const std::lock_guard lock(lock_);
    highest_ = std::max(highest_, stats_.peak);
    stats_.peak = stats_.current;
  }

 private:
  struct SizeClass {
    size_t index;
    size_t capacity;
  };
  // Capacities 64, 80, 96, 112, 128, 160 ... rounded up to the alignment.
  static SizeClass size_class(size_t bytes) {
    const size_t n = bytes < kAlignment ? kAlignment : bytes;
    const auto log = static_cast<size_t>(std::bit_width(n - 1));  // 2^(log-1) < n <= 2^log
    const size_t base = size_t{1} << (log - 1);
    const size_t step = base / 4;
    const size_t quarter = (n - base + step - 1) / step;  // 1 to 4 (0 when n is 64: base is 32, step 8)
    const size_t capacity = base + quarter * step;
    return {log * 4 + quarter, (capacity + kAlignment - 1) / kAlignment * kAlignment};
  }
  // The block is in use from now on. Under the lock: an observer is told in the order in which bytes are
  // counted, so that its peak is this one.
  void count(void* block, size_t bytes) {
    stats_.current += bytes;
    if (stats_.current > stats_.peak) stats_.peak = stats_.current;
    note_allocated(cpu, block, bytes);
  }
  [[noreturn]] void report_exhaustion(size_t bytes, Loc loc) const {
    fail("TT-MEM-01",
         "out of host memory: " + std::to_string(bytes) + " bytes requested, " +
             std::to_string(stats().current) +
             " bytes in use by tensors\n  hint: use a smaller batch, or free tensors that are no longer "
             "needed",
         loc);
  }

  mutable SpinLock lock_;
  AllocatorStats stats_;
  size_t highest_ = 0;  // peak before the last reset
  std::array<std::vector<void*>, 64 * 4 + 8> free_;
};

// Scratch memory from the library's allocator, so that it is reused and counted.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t n) : bytes_(static_cast<size_t>(n) * sizeof(T)) {
    data_ = static_cast<T*>(HostAllocator::instance().allocate(bytes_));
  }
  ~Scratch() { HostAllocator::instance().deallocate(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() { return data_; }

 private:
  size_t bytes_;
  T* data_;
};

inline AllocatorStats allocator_stats() { return HostAllocator::instance().stats(); }
inline void reset_peak() { HostAllocator::instance().reset_peak(); }

}  // namespace tinytorch::inline TT_BUILD
