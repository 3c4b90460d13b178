// Caching allocator for device memory: one allocator per device, one BlockPool (block_pool.hpp) per stream.
//
// A freed block returns to the pool of its stream at once, even if kernels still use it, because later work
// of the same stream runs after them. record_stream() announces work on other streams; such a block returns
// only when events of those streams are reached. Memory allocated in a capture comes from pools that belong
// to the graph, because each replay writes to the same addresses again. For the same reason, any other block
// that is freed during a capture is held until the graph is destroyed.
// Source: PyTorch, "CUDA semantics: memory management" (pools per stream and per graph).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <tinytorch/backend/cuda/runtime/block_pool.hpp>
#include <tinytorch/backend/cuda/runtime/capture.cuh>
#include <tinytorch/backend/cuda/runtime/stream.cuh>
#include <tinytorch/core/allocation_observer.hpp>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Segments from cudaMalloc.
struct DeviceSegments {
  int device;
  void* acquire(size_t bytes) const {
    const DeviceGuard guard(device);
    const RelaxedCapture relaxed;
    void* segment = nullptr;
    if (cudaMalloc(&segment, bytes) == cudaSuccess) return segment;
    (void)cudaGetLastError();  // the caller handles the lack of memory, so the error is cleared
    return nullptr;
  }
  void release(void* segment, size_t) const {
    const QuietDeviceGuard guard(device);
    (void)cudaFree(segment);  // waits for the device
  }
};

// True if freed memory is kept for reuse. Without caching, each tensor is a separate allocation: this is
// slow, but compute-sanitizer and the emulator then see the exact bounds of each tensor. Caching is on by
// default, off in the emulator; TINYTORCH_CUDA_CACHE overrides both.
inline std::atomic<bool>& caching_flag() {
  static std::atomic<bool> on = [] {
    const char* const asked = std::getenv("TINYTORCH_CUDA_CACHE");
    return asked ? std::string(asked) != "0" : TINYTORCH_CUDA_SIM == 0;
  }();
  return on;
}

class DeviceAllocator {
 public:
  static DeviceAllocator& of(int device, Loc loc = Loc::current());

  void* allocate(size_t bytes, Loc loc);
  void deallocate(void* address) noexcept;
  void record_stream(void* address, StreamHandle* stream);
  void release_cached();
  // Call when the graph is destroyed and its last replay is done.
  void release_graph(uint64_t graph);
  size_t reserved_by_graph(uint64_t graph);
  // Frees a block that was held for a graph (GraphMemory::held).
  void release_held(DeviceBlock held) noexcept;

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_now();
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    counts_.peak = counts_.current;
    counts_.peak_reserved = reserved_now();
  }

 private:
  using Pool = BlockPool<DeviceSegments>;
  using PoolKey = std::pair<uint64_t, StreamHandle*>;  // graph (0: none), stream
  struct Pending {
    DeviceBlock freed;
    std::vector<Event> events;  // one per stream that used the block
  };

  explicit DeviceAllocator(int device) : device_(device) {}
  void allocate_cached(DeviceBlock& wanted);
  Block* grow(Pool& pool, size_t bytes);
  void allocate_uncached(DeviceBlock& wanted);
  void free_block(DeviceBlock freed);
  void return_block(const DeviceBlock& freed);
  void defer_until_unused(DeviceBlock freed);
  void collect(bool wait);
  void release_pool(const PoolKey& key);
  void release_segments();
  size_t reserved_now() const;
  MemoryStats stats_now() const;
  [[noreturn]] void report_exhaustion(size_t bytes, Loc loc) const;

  const int device_;
  std::mutex mutex_;
  std::map<PoolKey, std::unique_ptr<Pool>> pools_;
  std::unordered_map<void*, DeviceBlock> live_;
  std::vector<Pending> pending_;
  std::map<uint64_t, std::vector<DeviceBlock>> uncached_of_graph_;  // freed, but replays still write there
  size_t uncached_bytes_ = 0;                                       // allocated outside the pools
  MemoryStats counts_;  // the fields that are updated on each call; stats_now() adds the others
};

inline DeviceAllocator& DeviceAllocator::of(int device, Loc loc) {
  static std::array<std::atomic<DeviceAllocator*>, kMostDevices> all{};  // never destroyed: see HostAllocator
  static std::mutex mutex;
  if (device >= 0 && device < kMostDevices) {
    if (DeviceAllocator* const found = all[static_cast<size_t>(device)].load(std::memory_order_acquire))
      return *found;
  }
  check_device(device, loc);
  const std::lock_guard lock(mutex);
  auto& slot = all[static_cast<size_t>(device)];
  if (!slot.load()) slot.store(new DeviceAllocator(device), std::memory_order_release);
  return *slot.load();
}

inline void* DeviceAllocator::allocate(size_t bytes, Loc loc) {
  DeviceBlock wanted;
  wanted.requested = bytes;
  wanted.device = device_;
  wanted.graph = capturing ? capturing->id : 0;
  wanted.stream = current_stream(device_);
  const std::lock_guard lock(mutex_);
  caching_flag() ? allocate_cached(wanted) : allocate_uncached(wanted);
  if (!wanted.address) report_exhaustion(bytes, loc);
  counts_.allocations += 1;
  counts_.current += bytes;
  counts_.peak = std::max(counts_.peak, counts_.current);
  void* const address = wanted.address;
  live_[address] = std::move(wanted);
  note_allocated({DeviceType::cuda, device_}, address, bytes);
  return address;
}

inline void DeviceAllocator::allocate_cached(DeviceBlock& wanted) {
  std::unique_ptr<Pool>& pool = pools_[{wanted.graph, wanted.stream}];
  if (!pool) pool = std::make_unique<Pool>(DeviceSegments{device_});
  Block* block = pool->take(wanted.requested);
  if (!block && !capturing && !pending_.empty()) {
    collect(false);
    block = pool->take(wanted.requested);
  }
  if (!block) block = grow(*pool, wanted.requested);
  if (!block) return;
  wanted.block = block;
  wanted.address = block->address;
}

// Takes a new segment from the device. If the device is full, releases unused segments and tries again,
// except during a capture, in which waiting and releasing are not allowed.
inline Block* DeviceAllocator::grow(Pool& pool, size_t bytes) {
  counts_.device_calls += 1;
  Block* block = pool.grow(bytes);
  if (!block && !capturing) {
    collect(true);
    block = pool.take(bytes);
    if (!block) {
      release_segments();
      block = pool.grow(bytes);
    }
  }
  counts_.peak_reserved = std::max(counts_.peak_reserved, reserved_now());
  return block;
}

// cudaMalloc cannot allocate 0 bytes, so at least one byte is requested.
constexpr size_t uncached_size(size_t requested) { return requested == 0 ? 1 : requested; }

inline void DeviceAllocator::allocate_uncached(DeviceBlock& wanted) {
  const size_t size = uncached_size(wanted.requested);
  const DeviceSegments source{device_};
  counts_.device_calls += 1;
  wanted.address = source.acquire(size);
  if (!wanted.address && !capturing) {
    collect(true);
    release_segments();
    wanted.address = source.acquire(size);
  }
  if (!wanted.address) return;
  uncached_bytes_ += size;
  counts_.peak_reserved = std::max(counts_.peak_reserved, reserved_now());
}

inline void DeviceAllocator::deallocate(void* address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return;
  DeviceBlock freed = std::move(found->second);
  live_.erase(found);
  counts_.current -= freed.requested;
  note_freed({DeviceType::cuda, device_}, address, freed.requested);
  free_block(std::move(freed));
}

inline void DeviceAllocator::release_held(DeviceBlock held) noexcept {
  const std::lock_guard lock(mutex_);
  free_block(std::move(held));
}

inline void DeviceAllocator::free_block(DeviceBlock freed) {
  if (capturing && !(freed.graph == capturing->id && freed.users.empty())) {
    capturing->held.push_back(std::move(freed));
  } else if (!freed.users.empty()) {
    defer_until_unused(std::move(freed));
  } else {
    return_block(freed);
  }
}

// Returns a block to its pool. Without a pool, the block goes back to the device, or is kept until its graph
// is destroyed.
inline void DeviceAllocator::return_block(const DeviceBlock& freed) {
  const bool graph_lives = freed.graph != 0 && is_live_graph(freed.graph);
  if (freed.block) {
    const PoolKey key{freed.graph, freed.stream};
    pools_.at(key)->put(freed.block);
    if (freed.graph != 0 && !graph_lives) release_pool(key);
  } else if (graph_lives) {
    uncached_of_graph_[freed.graph].push_back(freed);
  } else {
    const size_t size = uncached_size(freed.requested);
    DeviceSegments{device_}.release(freed.address, size);
    uncached_bytes_ -= size;
  }
}

inline void DeviceAllocator::defer_until_unused(DeviceBlock freed) {
  Pending pending;
  try {
    for (StreamHandle* user : freed.users) {
      const StreamGuard guard(user, device_);
      pending.events.emplace_back(false, device_).record();
    }
  } catch (const Error&) {
    return;  // another thread captures this stream, so no event can be recorded: the block is never reused
  }
  pending.freed = std::move(freed);
  pending_.push_back(std::move(pending));
}

// Returns the pending blocks whose events are reached. With `wait`, waits for all events first.
inline void DeviceAllocator::collect(bool wait) {
  std::erase_if(pending_, [&](const Pending& p) {
    for (const Event& event : p.events) {
      const cudaEvent_t native_event = native(event.handle());
      if ((wait ? cudaEventSynchronize(native_event) : cudaEventQuery(native_event)) == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return false;
      }
    }
    return_block(p.freed);
    return true;
  });
}

inline void DeviceAllocator::record_stream(void* address, StreamHandle* stream) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end() || found->second.stream == stream) return;
  auto& users = found->second.users;
  if (std::find(users.begin(), users.end(), stream) == users.end()) users.push_back(stream);
}

// Releases the unused segments of a pool whose graph is destroyed. During a capture nothing is released here;
// the next release_cached() does it.
inline void DeviceAllocator::release_pool(const PoolKey& key) {
  if (capturing) return;
  const auto pool = pools_.find(key);
  pool->second->release_unused();
  if (pool->second->reserved() == 0) pools_.erase(pool);
}

// Releases unused segments, except those of live graphs, whose kernels hold the addresses.
inline void DeviceAllocator::release_segments() {
  for (auto& [key, pool] : pools_) {
    if (key.first == 0 || !is_live_graph(key.first)) pool->release_unused();
  }
}

inline void DeviceAllocator::release_cached() {
  const std::lock_guard lock(mutex_);
  collect(true);
  release_segments();
}

inline void DeviceAllocator::release_graph(uint64_t graph) {
  const std::lock_guard lock(mutex_);
  if (const auto found = uncached_of_graph_.find(graph); found != uncached_of_graph_.end()) {
    const std::vector<DeviceBlock> blocks = std::move(found->second);
    uncached_of_graph_.erase(found);
    for (const DeviceBlock& block : blocks) free_block(block);
  }
  std::vector<PoolKey> keys;
  for (const auto& [key, pool] : pools_) {
    if (key.first == graph) keys.push_back(key);
  }
  for (const PoolKey& key : keys) release_pool(key);
}

inline size_t DeviceAllocator::reserved_by_graph(uint64_t graph) {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& [key, pool] : pools_) bytes += key.first == graph ? pool->reserved() : 0;
  for (const auto& [address, live] : live_) {
    if (!live.block && live.graph == graph) bytes += uncached_size(live.requested);
  }
  if (const auto found = uncached_of_graph_.find(graph); found != uncached_of_graph_.end()) {
    for (const DeviceBlock& freed : found->second) bytes += uncached_size(freed.requested);
  }
  return bytes;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
