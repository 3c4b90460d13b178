// Statistics of the device allocator, its out-of-memory message, and the memory functions of runtime.hpp.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/runtime/allocator.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline size_t DeviceAllocator::reserved_now() const {
  size_t bytes = uncached_bytes_;
  for (const auto& [key, pool] : pools_) bytes += pool->reserved();
  return bytes;
}

// Free blocks in the pools of graphs are counted as reserved but not as cached, because only their graph can
// use them.
inline MemoryStats DeviceAllocator::stats_now() const {
  MemoryStats s = counts_;
  s.reserved = reserved_now();
  for (const auto& [key, pool] : pools_) {
    if (key.first != 0) continue;
    s.cached += pool->cached();
    s.largest_free = std::max(s.largest_free, pool->largest_free());
  }
  return s;
}

// Formats a size with three significant digits: "512 bytes", "1.50 MiB", "80.0 GiB".
inline std::string readable_bytes(size_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes) / 1024;
  const char* unit = "KiB";
  for (const char* larger : {"MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = larger;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s", value < 10 ? 2 : value < 100 ? 1 : 0, value, unit);
  return text;
}

inline void DeviceAllocator::report_exhaustion(size_t bytes, Loc loc) const {
  const MemoryStats s = stats_now();
  const std::string device = "cuda:" + std::to_string(device_);
  std::string text = "out of memory on " + device + ": " + readable_bytes(bytes) +
                     " requested\n  tensors hold " + readable_bytes(s.current) + " of " +
                     readable_bytes(s.reserved) + " reserved from the device; the cache holds " +
                     readable_bytes(s.cached) + ", its largest block " + readable_bytes(s.largest_free);
  size_t free = 0, total = 0;
  const DeviceGuard guard(device_);
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
    const size_t taken = total - free;
    text += "\n  the device has " + readable_bytes(free) + " free of " + readable_bytes(total) +
            "; others hold " + readable_bytes(taken > s.reserved ? taken - s.reserved : 0);
  }
  text += "\n  hint: ";
  if (capturing) {
    text += "a capture cannot release cached memory: call release_cached() before it";
  } else if (s.cached >= bytes) {
    text +=
        "the cached memory would be enough, but it is fragmented; allocate the largest tensors first, or "
        "free "
        "the tensors between the free blocks";
  } else {
    text +=
        "use a smaller batch, bf16, or no_grad() where no gradients are needed; free tensors no longer "
        "needed";
  }
  fail("TT-MEM-02", text, loc);
}

void* allocate(size_t bytes, int device, Loc loc) {
  return DeviceAllocator::of(device, loc).allocate(bytes, loc);
}
void deallocate(void* block, size_t, int device) noexcept {
  if (block) DeviceAllocator::of(device).deallocate(block);
}
void record_stream(void* block, int device, StreamHandle* stream, Loc loc) {
  DeviceAllocator::of(device, loc).record_stream(block, stream);
}
MemoryStats memory_stats(int device) { return DeviceAllocator::of(device).stats(); }
void reset_peak(int device) { DeviceAllocator::of(device).reset_peak(); }
void release_cached(int device, Loc loc) {
  refuse_in_capture("release_cached()", loc);
  DeviceAllocator::of(device, loc).release_cached();
}
bool is_caching() { return caching_flag(); }
void set_caching(bool on) { caching_flag() = on; }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
