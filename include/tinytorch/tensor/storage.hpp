// Storage: one block of memory, shared by any number of tensors.
//
// The version counts in-place writes. Autograd stores the version when it saves a tensor, and throws an error
// in the backward pass if it has changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/device.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD {

class Storage {
 public:
  // The number of storages of this process so far. A storage with a number of at least count() is younger.
  static uint64_t count() { return counter().load(std::memory_order_relaxed); }
  uint64_t number() const { return number_; }

  Storage(size_t bytes, Device device, Loc loc) : bytes_(bytes), device_(device) {
    if (device.is_cpu()) {
      data_ = HostAllocator::instance().allocate(bytes, loc);
    } else if constexpr (backend::cuda::is_built()) {
      data_ = backend::cuda::allocate(bytes, device.index, loc);
    } else {
      fail_without_cuda("allocating a tensor on " + device.str(), loc);
    }
  }
  // Memory of the CPU that `owner` keeps alive, such as a mapped file.
  Storage(void* data, size_t bytes, std::shared_ptr<const void> owner)
      : data_(data), bytes_(bytes), device_(cpu), owner_(std::move(owner)) {}
  ~Storage() {
    if (owner_) return;
    if (device_.is_cpu()) {
      HostAllocator::instance().deallocate(data_, bytes_);
    } else if constexpr (backend::cuda::is_built()) {
      backend::cuda::deallocate(data_, bytes_, device_.index);
    }
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  uint64_t version() const { return version_; }
  void bump_version() { ++version_; }
  // Number of in-place writes that the graph recorded (tensor/ops/inplace.hpp). A view that was taken before
  // such a write knows nothing of it, so apply() refuses it.
  uint64_t recorded_writes() const { return recorded_writes_; }
  void count_recorded_write() { ++recorded_writes_; }

 private:
  static std::atomic<uint64_t>& counter() {
    static std::atomic<uint64_t> storages{0};
    return storages;
  }

  void* data_ = nullptr;
  size_t bytes_;
  Device device_;
  std::shared_ptr<const void> owner_{};  // null: the memory is this storage's own
  uint64_t version_ = 0, recorded_writes_ = 0;
  uint64_t number_ = counter().fetch_add(1, std::memory_order_relaxed);
};

}  // namespace tinytorch::inline TT_BUILD
