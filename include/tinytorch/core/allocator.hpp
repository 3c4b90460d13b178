// Caching host allocator: 64-byte aligned blocks, which are counted and kept for reuse.
//
// A freed block goes into the free list of its size class, because a large block that was returned to the
// system costs a page fault per 4 KiB at its next use (about as long as computing on it). The size classes
// divide each interval between powers of two into quarters, so a block is at most 25 % larger than the
// request, apart from the rounding to 64 bytes. The cache holds at most 1 GiB, or half of the highest usage
// so far if that is more: a training step frees its gradients together, and the next step needs them again.
// `current` and `peak` count requested bytes in use, without the cache.
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
  size_t from_system = 0;  // requests that no cached block could serve
};

// Spin lock for critical sections of a few instructions. It makes no system call, so it costs one atomic
// operation instead of two; a waiting thread yields its processor.
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
  static constexpr size_t kCacheLimit = size_t{1} << 30;  // bytes that the cache may hold in any case
  static constexpr bool kReuse = !TT_ASAN;  // reuse would hide a use after free from AddressSanitizer

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

  // Returns every cached block to the system.
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
  // The capacities are 64, 80, 96, 112, 128, 160, ..., each rounded up to a multiple of kAlignment.
  static SizeClass size_class(size_t bytes) {
    const size_t n = bytes < kAlignment ? kAlignment : bytes;
    const auto log = static_cast<size_t>(std::bit_width(n - 1));  // 2^(log-1) < n <= 2^log
    const size_t base = size_t{1} << (log - 1);
    const size_t step = base / 4;
    const size_t quarter = (n - base + step - 1) / step;  // 1 to 4
    const size_t capacity = base + quarter * step;
    return {log * 4 + quarter, (capacity + kAlignment - 1) / kAlignment * kAlignment};
  }
  // Counts a block that is now in use. The lock must be held, so that an observer gets the calls in the order
  // in which bytes are counted and computes the same peak.
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

// Scratch buffer of n elements from the host allocator, so that its memory is reused and counted.
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
