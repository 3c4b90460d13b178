// Copies and fills in stream order.
//
//   CPU to device      up to kStaged bytes: staged in pinned memory, so that the host does not wait;
//                      more: the host waits, which costs little beside the transfer
//   device to CPU      the host waits
//   between devices    queued on the stream of the source, with an event before and after
#pragma once

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <tinytorch/backend/cuda/runtime/pinned.cuh>
#include <tinytorch/backend/cuda/runtime/stream.cuh>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Makes the current stream of device `later` wait for all work queued so far on the current stream of
// `first`.
inline void order_streams(int first, int later, Loc loc) {
  Event event(false, first, loc);
  event.record(loc);
  const DeviceGuard guard(later, loc);
  check(cudaStreamWaitEvent(native(current_stream(later)), native(event.handle()), 0), "ordering two devices",
        loc);
}

// Enables peer access, so that two devices copy to each other without a detour through host memory, if the
// machine supports it.
inline void connect_devices(int a, int b, Loc loc) {
  static std::mutex mutex;
  static auto* const known = new std::set<std::pair<int, int>>;
  const std::lock_guard lock(mutex);
  if (!known->insert({a, b}).second) return;
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    const DeviceGuard guard(from, loc);
    int possible = 0;
    if (cudaDeviceCanAccessPeer(&possible, from, to) == cudaSuccess && possible != 0) {
      (void)cudaDeviceEnablePeerAccess(to, 0);
    }
    (void)cudaGetLastError();  // already enabled, or not possible: the copy works either way
  }
}

inline void copy_between_devices(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                 Loc loc) {
  if (to_device == from_device) {
    const DeviceGuard guard(from_device, loc);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, native(current_stream(from_device))),
          "copying on the device", loc);
    return;
  }
  connect_devices(std::min(from_device, to_device), std::max(from_device, to_device), loc);
  order_streams(to_device, from_device, loc);  // the target may still be in use
  {
    const DeviceGuard guard(from_device, loc);
    check(cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, native(current_stream(from_device))),
          "copying between devices", loc);
  }
  order_streams(from_device, to_device, loc);
}

inline void queue_host_copy(void* to, const void* from, size_t bytes, bool to_device, int device, Loc loc) {
  const DeviceGuard guard(device, loc);
  check(cudaMemcpyAsync(to, from, bytes, to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                        native(current_stream(device))),
        to_device ? "copying to the device" : "copying from the device", loc);
}

// Largest copy from the CPU, in bytes, that is staged in pinned memory: up to here a second copy on the host
// is cheaper than waiting for the device.
inline constexpr size_t kStaged = size_t{1} << 20;

inline void copy_through_pinned(void* to, const void* from, size_t bytes, int device, Loc loc) {
  void* const staged = allocate_pinned(bytes, loc);
  std::memcpy(staged, from, bytes);
  try {
    queue_host_copy(to, staged, bytes, true, device, loc);
  } catch (...) {
    deallocate_pinned(staged);
    throw;
  }
  PinnedAllocator::instance().note_use(staged, device, current_stream(device));
  deallocate_pinned(staged);
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes, Loc loc) {
  if (bytes == 0) return;
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memmove(to, from, bytes);
    return;
  }
  if (to_device.is_cuda() && from_device.is_cuda()) {
    return copy_between_devices(to, to_device.index, from, from_device.index, bytes, loc);
  }
  const int device = to_device.is_cuda() ? to_device.index : from_device.index;
  refuse_in_capture(to_device.is_cuda() ? "a copy from the CPU" : "a copy to the CPU", loc);
  if (to_device.is_cuda() && bytes <= kStaged) return copy_through_pinned(to, from, bytes, device, loc);
  queue_host_copy(to, from, bytes, to_device.is_cuda(), device, loc);
  const DeviceGuard guard(device, loc);
  synchronize(current_stream(device), loc);
}

void copy_bytes_async(void* to, Device to_device, const void* from, Device from_device, size_t bytes,
                      Loc loc) {
  if (bytes == 0) return;
  if (to_device.type == from_device.type) return copy_bytes(to, to_device, from, from_device, bytes, loc);
  const void* const host = to_device.is_cpu() ? to : from;
  if (!is_pinned(host)) {
    fail("TT-CUDA-03",
         "copy_bytes_async: the memory on the CPU is not pinned\n  hint: take it from allocate_pinned(), "
         "or use copy_bytes()",
         loc);
  }
  const int device = to_device.is_cuda() ? to_device.index : from_device.index;
  queue_host_copy(to, from, bytes, to_device.is_cuda(), device, loc);
  PinnedAllocator::instance().note_use(host, device, current_stream(device));
}

void fill_bytes(void* to, int value, size_t bytes, int device, Loc loc) {
  if (bytes == 0) return;
  const DeviceGuard guard(device, loc);
  check(cudaMemsetAsync(to, value, bytes, native(current_stream(device))), "filling device memory", loc);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
