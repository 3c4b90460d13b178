// Device memory of the emulator, in a separate range of addresses, so that the address tells device pointers
// from host pointers.
//
// Unused bytes around every allocation make accesses out of bounds visible. Freed memory is reused only after
// 64 MiB more were freed, which makes accesses after cudaFree visible. New memory has bytes of 0xff: NaN as a
// floating-point number of any size, -1 as an integer.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tinytorch/backend/cuda/sim/shadow.hpp>
#include <tinytorch/core/shape.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

struct Allocation {
  char* begin = nullptr;
  size_t bytes = 0;
  bool freed = false;
};

class DeviceMemory {
 public:
  static constexpr size_t kSpace = size_t{1} << 40, kGranule = 256, kPage = 4096;
  static constexpr size_t kMostAllocations = size_t{1} << 28, kKept = size_t{64} << 20;

  // Never destroyed, because static tensors may live longer than any other object.
  static DeviceMemory& instance() {
    static auto* const memory = new DeviceMemory;
    return *memory;
  }

  // Returns null if the device is full.
  void* allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const size_t granules = ceil_div(bytes, kGranule);
    if (bytes > total_ - used_) return nullptr;
    if (Allocation* const old = reuse(granules)) {
      *old = {old->begin, bytes, false};
      std::memset(old->begin, 0xff, bytes);
      used_ += bytes;
      return old->begin;
    }
    const size_t first = next_ + 1, end = first + granules;  // one unused granule before
    if (end * kGranule >= kSpace || count_ + 1 >= kMostAllocations) return nullptr;
    const uint32_t id = ++count_;
    records_[id] = {base_ + first * kGranule, bytes, false};
    std::fill_n(ids_ + first, granules, id);
    std::memset(records_[id].begin, 0xff, bytes);
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
    const size_t granules = ceil_div(a->bytes, kGranule);
    freed_[granules].push_back(a);
    kept_ += granules * kGranule;
    if (kept_ > 8 * kKept) release_all();
    return true;
  }
  void set_total(size_t bytes) { total_ = bytes; }
  size_t total() const { return total_; }
  size_t free() const { return total_ - used_; }

  bool contains(const void* p) const {
    return static_cast<size_t>(static_cast<const char*>(p) - base_) < kSpace;
  }
  // The allocation that contains p, or whose last 256-byte granule contains p; null between allocations.
  Allocation* find(const void* p) const {
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
  Cell* cell(const void* p) const {
    return cells_ + static_cast<size_t>(static_cast<const char*>(p) - base_) / 4;
  }

  std::string leaks() {
    const std::lock_guard lock(mutex_);
    std::string text;
    size_t found = 0, bytes = 0;
    for (uint32_t id = 1; id <= count_; ++id) {
      if (records_[id].freed) continue;
      ++found;
      bytes += records_[id].bytes;
      if (found <= 20)
        text += "\n  allocation " + std::to_string(id) + ": " + std::to_string(records_[id].bytes) + " bytes";
    }
    if (found == 0) return "";
    return std::to_string(found) + " allocations of device memory were not freed, " + std::to_string(bytes) +
           " bytes in all:" + text;
  }

 private:
  DeviceMemory()
      : base_(reserve<char>(kSpace)),
        ids_(reserve<uint32_t>(kSpace / kGranule)),
        records_(reserve<Allocation>(kMostAllocations)),
        cells_(reserve<Cell>(kSpace / 4)) {}
  template <class T>
  static T* reserve(size_t count) {
    void* const space = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) {
      fail("TT-SIM-01",
           "the emulator: there is no address space for device memory\n  hint: lift the limit (ulimit -v "
           "unlimited)");
    }
    return static_cast<T*>(space);
  }
  // The allocation of this size that was freed first, if enough memory was freed after it; else null.
  Allocation* reuse(size_t granules) {
    const auto found = freed_.find(granules);
    if (kept_ < kKept || found == freed_.end() || found->second.empty()) return nullptr;
    Allocation* const old = found->second.front();
    found->second.pop_front();
    kept_ -= granules * kGranule;
    return old;
  }
  // Returns all freed memory to the host, so that sizes that are not requested again do not use memory.
  void release_all() {
    for (const auto& [granules, allocations] : freed_) {
      for (const Allocation* a : allocations) {
        const auto begin = static_cast<size_t>(a->begin - base_);
        release(base_, begin, granules * kGranule);
        release(cells_, begin / 4 * sizeof(Cell), granules * kGranule / 4 * sizeof(Cell));
      }
    }
    freed_.clear();
    kept_ = 0;
  }
  // Returns the whole pages of a range to the host.
  static void release(void* base, size_t begin, size_t bytes) {
    const size_t from = round_up(begin, kPage), to = (begin + bytes) / kPage * kPage;
    if (to > from) (void)madvise(static_cast<char*>(base) + from, to - from, MADV_DONTNEED);
  }

  std::mutex mutex_;
  char* const base_;
  uint32_t* const ids_;  // number of the allocation of each 256-byte granule, 0: none
  Allocation* const records_;
  Cell* const cells_;
  std::map<size_t, std::deque<Allocation*>> freed_;  // by number of granules
  size_t kept_ = 0;                                  // bytes of freed_
  uint32_t count_ = 0;
  size_t next_ = 0, used_ = 0, total_ = size_t{4} << 30;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
