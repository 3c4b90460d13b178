// Device memory: one allocator per device, one block_pool.hpp per stream in it.
//
// A block goes back to the pool of its stream at once, while kernels may still be using it: the next user of
// the same stream runs after them. Work on other streams is announced by record_stream(); then the block
// waits until events of those streams are reached. Memory asked for in a capture comes from pools of that
// graph, which nobody else takes from, because each replay writes there again. For the same reason a block
// that dies in a capture without being the graph's own is held until the graph is destroyed. Source: PyTorch,
// "CUDA semantics: memory management" (the idea of pools per stream and per graph).
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
    (void)cudaGetLastError();  // no memory is an answer here
    return nullptr;
  }
  void release(void* segment, size_t) const {
    const QuietDeviceGuard guard(device);
    (void)cudaFree(segment);  // waits for the device
  }
};

// Whether freed memory is kept. Without, each tensor is an allocation of its own, slow but exactly bounded:
// for compute-sanitizer, and always so in the emulator, unless asked.
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
  // The graph was destroyed and has run for the last time.
  void release_graph(uint64_t graph);
  size_t reserved_by_graph(uint64_t graph);
  // No graph needs the block any more.
  void end_hold(DeviceBlock held) noexcept;

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
    std::vector<Event> events;  // of its users
  };

  explicit DeviceAllocator(int device) : device_(device) {}
  void take_block(DeviceBlock& wanted);
  Block* grow(Pool& pool, size_t bytes);
  void take_alone(DeviceBlock& wanted);
  void put_aside(DeviceBlock freed);
  void give_back(const DeviceBlock& freed);
  void wait_for_users(DeviceBlock freed);
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
  std::map<uint64_t, std::vector<DeviceBlock>> alone_of_graph_;  // freed, but replays still write there
  size_t alone_ = 0;                                             // bytes outside the pools
  MemoryStats counts_;                                           // what is counted as it happens
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
  caching_flag() ? take_block(wanted) : take_alone(wanted);
  if (!wanted.address) report_exhaustion(bytes, loc);
  counts_.allocations += 1;
  counts_.current += bytes;
  counts_.peak = std::max(counts_.peak, counts_.current);
  void* const address = wanted.address;
  live_[address] = std::move(wanted);
  note_allocated({DeviceType::cuda, device_}, address, bytes);
  return address;
}

inline void DeviceAllocator::take_block(DeviceBlock& wanted) {
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

// Asks the device; when it is full, gives back what is not in use and asks again. In a capture nothing can be
// waited for or given back.
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

// cudaMalloc has no blocks of no bytes.
constexpr size_t size_alone(size_t requested) { return requested == 0 ? 1 : requested; }

inline void DeviceAllocator::take_alone(DeviceBlock& wanted) {
  const size_t size = size_alone(wanted.requested);
  const DeviceSegments source{device_};
  counts_.device_calls += 1;
  wanted.address = source.acquire(size);
  if (!wanted.address && !capturing) {
    collect(true);
    release_segments();
    wanted.address = source.acquire(size);
  }
  if (!wanted.address) return;
  alone_ += size;
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
  put_aside(std::move(freed));
}

inline void DeviceAllocator::end_hold(DeviceBlock held) noexcept {
  const std::lock_guard lock(mutex_);
  put_aside(std::move(held));
}

inline void DeviceAllocator::put_aside(DeviceBlock freed) {
  if (capturing && !(freed.graph == capturing->id && freed.users.empty())) {
    capturing->held.push_back(std::move(freed));
  } else if (!freed.users.empty()) {
    wait_for_users(std::move(freed));
  } else {
    give_back(freed);
  }
}

// Back to its pool; or to the device, when it is not from a pool or the pool's graph is gone.
inline void DeviceAllocator::give_back(const DeviceBlock& freed) {
  const bool graph_lives = freed.graph != 0 && is_live_graph(freed.graph);
  if (freed.block) {
    const PoolKey key{freed.graph, freed.stream};
    pools_.at(key)->put(freed.block);
    if (freed.graph != 0 && !graph_lives) release_pool(key);
  } else if (graph_lives) {
    alone_of_graph_[freed.graph].push_back(freed);
  } else {
    const size_t size = size_alone(freed.requested);
    DeviceSegments{device_}.release(freed.address, size);
    alone_ -= size;
  }
}

inline void DeviceAllocator::wait_for_users(DeviceBlock freed) {
  Pending pending;
  try {
    for (StreamHandle* user : freed.users) {
      const StreamGuard guard(user, device_);
      pending.events.emplace_back(false, device_).record();
    }
  } catch (const Error&) {
    return;  // a stream that takes no event, because another thread captures it: never use the block again
  }
  pending.freed = std::move(freed);
  pending_.push_back(std::move(pending));
}

// Returns blocks whose users are done; with `wait`, all of them.
inline void DeviceAllocator::collect(bool wait) {
  std::erase_if(pending_, [&](const Pending& p) {
    for (const Event& event : p.events) {
      const cudaEvent_t native_event = native(event.handle());
      if ((wait ? cudaEventSynchronize(native_event) : cudaEventQuery(native_event)) == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return false;
      }
    }
    give_back(p.freed);
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

// What is left of a pool whose graph is gone. A capture that is under way is not disturbed: release_cached()
// comes by later.
inline void DeviceAllocator::release_pool(const PoolKey& key) {
  if (capturing) return;
  const auto pool = pools_.find(key);
  pool->second->release_unused();
  if (pool->second->reserved() == 0) pools_.erase(pool);
}

// Segments of living graphs stay, even unused ones: their kernels know the addresses.
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
  if (const auto found = alone_of_graph_.find(graph); found != alone_of_graph_.end()) {
    const std::vector<DeviceBlock> blocks = std::move(found->second);
    alone_of_graph_.erase(found);
    for (const DeviceBlock& block : blocks) put_aside(block);
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
    if (!live.block && live.graph == graph) bytes += size_alone(live.requested);
  }
  if (const auto found = alone_of_graph_.find(graph); found != alone_of_graph_.end()) {
    for (const DeviceBlock& freed : found->second) bytes += size_alone(freed.requested);
  }
  return bytes;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
