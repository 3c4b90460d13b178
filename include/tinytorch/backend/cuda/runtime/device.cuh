// Device queries: the number of devices, their properties and their free memory.
#pragma once

#include <map>
#include <mutex>
#include <tinytorch/backend/cuda/runtime/native.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

int device_count() {
  static const int count = [] {
    int n = 0;
    if (cudaGetDeviceCount(&n) == cudaSuccess) return n;
    (void)cudaGetLastError();
    return 0;
  }();
  return count;
}
bool is_available() { return device_count() > 0; }

// Throws TT-CUDA-04 unless `device` exists. The message tells a wrong index from a missing device or driver.
inline void check_device(int device, Loc loc) {
  const int count = device_count();
  if (device >= 0 && device < count) return;
  int ignored = 0;
  if (count == 0) check(cudaGetDeviceCount(&ignored), "looking for a CUDA device", loc);
  fail("TT-CUDA-04",
       "cuda:" + std::to_string(device) + ": there is no such device\n  hint: this machine has " +
           std::to_string(count) + (count == 1 ? " device" : " devices") + ", numbered from 0",
       loc);
}

inline int attribute(cudaDeviceAttr which, int device, Loc loc) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "reading a property of the device", loc);
  return value;
}

const DeviceProperties& properties(int device, Loc loc) {
  static std::mutex mutex;
  static auto* const known = new std::map<int, DeviceProperties>;
  check_device(device, loc);
  const std::lock_guard lock(mutex);
  const auto found = known->find(device);
  if (found != known->end()) return found->second;
  cudaDeviceProp native_properties{};
  check(cudaGetDeviceProperties(&native_properties, device), "reading the properties of the device", loc);
  DeviceProperties p;
  p.name = native_properties.name;
  p.memory_bytes = native_properties.totalGlobalMem;
  p.major = attribute(cudaDevAttrComputeCapabilityMajor, device, loc);
  p.minor = attribute(cudaDevAttrComputeCapabilityMinor, device, loc);
  p.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device, loc);
  p.threads_per_multiprocessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor, device, loc);
  const auto bytes = [&](cudaDeviceAttr which) { return static_cast<size_t>(attribute(which, device, loc)); };
  p.shared_per_block = bytes(cudaDevAttrMaxSharedMemoryPerBlock);
  p.shared_per_block_optin = bytes(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  p.shared_per_multiprocessor = bytes(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  p.l2_bytes = bytes(cudaDevAttrL2CacheSize);
  return known->emplace(device, std::move(p)).first->second;
}

int current_device() {
  int device = 0;
  if (cudaGetDevice(&device) == cudaSuccess) return device;
  (void)cudaGetLastError();
  return 0;
}
void set_device(int device, Loc loc) {
  check_device(device, loc);
  check(cudaSetDevice(device), "choosing the device", loc);
}
DeviceGuard::~DeviceGuard() {
  if (changed_) (void)cudaSetDevice(before_);
}

DeviceMemory device_memory(int device, Loc loc) {
  const DeviceGuard guard(device, loc);
  DeviceMemory memory;
  check(cudaMemGetInfo(&memory.free, &memory.total), "reading the device's free memory", loc);
  return memory;
}

int driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}
int runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
