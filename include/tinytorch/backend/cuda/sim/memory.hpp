// Device memory of the emulator: a range of addresses of its own, so that a pointer tells what it is.
//
// An address is given out once in the life of a program, with unused bytes around every allocation: an access
// outside, or after cudaFree, can always be told. The memory behind a freed allocation goes back to the host.
#pragma once

#include <sys/mman.h>

#include <tinytorch/backend/cuda/sim/types.hpp>
#include <tinytorch/core/error.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

struct Allocation {
  char* begin = nullptr;
  size_t bytes = 0;
  bool freed = false;
};

class DeviceMemory {
 public:
  static constexpr size_t kSpace = size_t{1} << 40, kGranule = 256, kPage = 4096;
  static constexpr size_t kMostAllocations = size_t{1} << 30;

  // Never destroyed: tensors that are static may outlive everything else.
  static DeviceMemory& instance() {
    static auto* const memory = new DeviceMemory;
    return *memory;
  }

  // Null when the device is full.
  void* allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const size_t granules = (bytes + kGranule - 1) / kGranule;
    const size_t first = next_ + 1, end = first + granules;  // one unused granule before
    if (bytes > total_ - used_ || end * kGranule >= kSpace || count_ + 1 >= kMostAllocations) return nullptr;
    const uint32_t id = ++count_;
    records_[id] = {base_ + first * kGranule, bytes, false};
    std::fill_n(ids_ + first, granules, id);
    next_ = end;
    used_ += bytes;
    return records_[id].begin;
  }
  bool deallocate(void* address) {
    const std::lock_guard lock(mutex_);
    Allocation* const a = find(address);
    if (!a || a->begin != address || a->freed) return false;
    a->freed = true;
    used_ -= a->bytes;
    const size_t from = (static_cast<size_t>(a->begin - base_) + kPage - 1) / kPage * kPage;
    const size_t to = static_cast<size_t>(a->begin + a->bytes - base_) / kPage * kPage;
    if (to > from) (void)madvise(base_ + from, to - from, MADV_DONTNEED);
    return true;
  }
  void set_total(size_t bytes) { total_ = bytes; }
  size_t total() const { return total_; }
  size_t free() const { return total_ - used_; }

  [[gnu::no_sanitize_thread]] bool contains(const void* p) const {
    return p >= base_ && static_cast<const char*>(p) < base_ + kSpace;
  }
  // The allocation that p is in or just behind (its last 256 bytes may be unused); null between allocations.
  [[gnu::no_sanitize_thread]] Allocation* find(const void* p) const {
    if (!contains(p)) return nullptr;
    const uint32_t id = ids_[static_cast<size_t>(static_cast<const char*>(p) - base_) / kGranule];
    return id ? records_ + id : nullptr;
  }
  // The last allocation that begins at or before p.
  Allocation* before(const void* p) const {
    size_t granule = static_cast<size_t>(static_cast<const char*>(p) - base_) / kGranule;
    while (granule > 0 && ids_[granule] == 0) --granule;
    return ids_[granule] ? records_ + ids_[granule] : nullptr;
  }

 private:
  DeviceMemory()
      : base_(reserve<char>(kSpace)),
        ids_(reserve<uint32_t>(kSpace / kGranule)),
        records_(reserve<Allocation>(kMostAllocations)) {}
  template <class T>
  static T* reserve(size_t count) {
    void* const space = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) {
      fail("TT-SIM-01",
           "the emulator: no address space for device memory\n  hint: lift the limit (ulimit -v unlimited)");
    }
    return static_cast<T*>(space);
  }

  std::mutex mutex_;
  char* const base_;
  uint32_t* const ids_;  // of each 256 bytes: which allocation, 0 for none
  Allocation* const records_;
  uint32_t count_ = 0;
  size_t next_ = 0, used_ = 0, total_ = size_t{4} << 30;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
