// Helpers for tests of the CUDA runtime: when the tests can run, and memory on the device.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <utility>
#include <vector>

namespace test {

// True if kernels run on the emulator.
inline constexpr bool kEmulated = TINYTORCH_CUDA_SIM != 0;
// True on the emulator, and with TINYTORCH_TEST_FEW=1 under a tool that checks every memory access of a GPU:
// exhaustive loops are then reduced to some seconds.
inline bool few_cases() {
  static const bool asked = std::getenv("TINYTORCH_TEST_FEW") != nullptr;
  return kEmulated || asked;
}

// Skips a case that needs more devices than there are, and counts it as skipped. A case that needs one device
// is never skipped if the emulator is built in, so it fails if the emulator is missing.
inline doctest::skip needs_devices(int count = 1) {
  const bool certain = kEmulated && count == 1;
  return doctest::skip(!certain && tinytorch::backend::cuda::device_count() < count);
}

inline tinytorch::Device on_cuda(int index) { return {tinytorch::DeviceType::cuda, index}; }

// A block of device memory, freed at the end of the scope.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes, int device = 0)
      : bytes_(bytes), device_(device), block_(tinytorch::backend::cuda::allocate(bytes, device)) {}
  ~DeviceBytes() { free(); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  void free() {
    if (block_) tinytorch::backend::cuda::deallocate(std::exchange(block_, nullptr), bytes_, device_);
  }
  unsigned char* data() const { return static_cast<unsigned char*>(block_); }
  size_t size() const { return bytes_; }

  void fill(int value) const { tinytorch::backend::cuda::fill_bytes(block_, value, bytes_, device_); }
  void copy_from(const DeviceBytes& other) const {
    tinytorch::backend::cuda::copy_bytes(block_, on_cuda(device_), other.block_, on_cuda(other.device_),
                                         bytes_);
  }
  std::vector<unsigned char> read() const {
    std::vector<unsigned char> out(bytes_);
    tinytorch::backend::cuda::copy_bytes(out.data(), tinytorch::cpu, block_, on_cuda(device_), bytes_);
    return out;
  }
  bool holds(int value) const {
    return read() == std::vector<unsigned char>(bytes_, static_cast<unsigned char>(value));
  }

 private:
  size_t bytes_;
  int device_;
  void* block_;
};

// Enables caching of device memory until the end of the scope, as in production; the emulator's default is
// off.
class CachingScope {
 public:
  explicit CachingScope(bool on = true) : before_(tinytorch::backend::cuda::is_caching()) {
    tinytorch::backend::cuda::set_caching(on);
  }
  ~CachingScope() { tinytorch::backend::cuda::set_caching(before_); }
  CachingScope(const CachingScope&) = delete;
  CachingScope& operator=(const CachingScope&) = delete;

 private:
  bool before_;
};

}  // namespace test
