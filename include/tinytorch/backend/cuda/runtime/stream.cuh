// Streams, events and synchronization.
//
// A Stream takes a native stream from a free list per device and priority, and its destructor puts it back.
// Native streams are never destroyed: memory pools that belong to one (allocator.cuh) stay valid, and after
// the first one, making a Stream costs nothing.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <tinytorch/backend/cuda/runtime/device.cuh>
#include <tinytorch/backend/cuda/runtime/native.cuh>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline StreamHandle* handle_of(cudaStream_t stream) { return reinterpret_cast<StreamHandle*>(stream); }
inline EventHandle* handle_of(cudaEvent_t event) { return reinterpret_cast<EventHandle*>(event); }

// ---- the current stream: one per thread and device, null (the default stream) at first

inline constexpr int kMostDevices = 64;

inline StreamHandle*& current_stream_slot(int device) {
  thread_local std::array<StreamHandle*, kMostDevices> streams{};
  return streams[static_cast<size_t>(std::clamp(device, 0, kMostDevices - 1))];
}
StreamHandle* current_stream(int device) { return current_stream_slot(device); }
StreamHandle* current_stream() { return current_stream_slot(current_device()); }
void set_current_stream(StreamHandle* stream, int device) { current_stream_slot(device) = stream; }

StreamGuard::StreamGuard(StreamHandle* stream, int device, Loc loc)
    : before_(current_stream(device)), device_(device), device_guard_(device, loc) {
  current_stream_slot(device) = stream;
}

// ---- streams

struct IdleStreams {
  std::mutex mutex;
  std::map<std::pair<int, int>, std::vector<cudaStream_t>> of;  // (device, priority)
  static IdleStreams& instance() {
    static auto* const idle = new IdleStreams;  // never destroyed: a static Stream may outlive it
    return *idle;
  }
};

Stream::Stream(int device, int priority, Loc loc) : device_(device) {
  const DeviceGuard guard(device, loc);
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "reading the priorities of streams", loc);
  priority_ = std::clamp(priority, highest, lowest);
  IdleStreams& idle = IdleStreams::instance();
  {
    const std::lock_guard lock(idle.mutex);
    auto& list = idle.of[{device_, priority_}];
    if (!list.empty()) {
      handle_ = handle_of(list.back());
      list.pop_back();
      return;
    }
  }
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority_), "making a stream", loc);
  handle_ = handle_of(stream);
}
Stream::~Stream() {
  if (!handle_) return;
  IdleStreams& idle = IdleStreams::instance();
  const std::lock_guard lock(idle.mutex);
  idle.of[{device_, priority_}].push_back(native(handle_));
}

bool Stream::is_idle(Loc loc) const {
  const DeviceGuard guard(device_, loc);
  const cudaError_t state = cudaStreamQuery(native(handle_));
  if (state == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  check(state, "asking a stream whether it is idle", loc);
  return true;
}
void Stream::synchronize(Loc loc) const {
  const DeviceGuard guard(device_, loc);
  cuda::synchronize(handle_, loc);
}
void Stream::wait(const Event& event, Loc loc) const {
  const DeviceGuard guard(device_, loc);
  check(cudaStreamWaitEvent(native(handle_), native(event.handle()), 0), "making a stream wait for an event",
        loc);
}

// ---- events

Event::Event(bool timed, int device, Loc loc) : device_(device), timed_(timed) {
  const DeviceGuard guard(device, loc);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
        "making an event", loc);
  handle_ = handle_of(event);
}
Event::~Event() {
  if (handle_) (void)cudaEventDestroy(native(handle_));
}
void Event::record(Loc loc) {
  const DeviceGuard guard(device_, loc);
  check(cudaEventRecord(native(handle_), native(current_stream(device_))), "recording an event", loc);
}
void Event::record(const Stream& stream, Loc loc) {
  const DeviceGuard guard(device_, loc);
  check(cudaEventRecord(native(handle_), native(stream.handle())), "recording an event", loc);
}
void Event::wait(Loc loc) const {
  const DeviceGuard guard(device_, loc);
  check(cudaStreamWaitEvent(native(current_stream(device_)), native(handle_), 0), "waiting for an event",
        loc);
}
bool Event::is_reached(Loc loc) const {
  const cudaError_t state = cudaEventQuery(native(handle_));
  if (state == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  check(state, "asking whether an event is reached", loc);
  return true;
}
void Event::synchronize(Loc loc) const {
  refuse_in_capture("waiting for an event", loc);
  check(cudaEventSynchronize(native(handle_)), "waiting for an event", loc);
}
double Event::milliseconds_since(const Event& earlier, Loc loc) const {
  if (!timed_ || !earlier.timed_) {
    fail("TT-CUDA-03",
         "milliseconds_since: an event was made without timing\n  hint: make both with Event(true)", loc);
  }
  synchronize(loc);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, native(earlier.handle_), native(handle_)),
        "reading the time between two events", loc);
  return static_cast<double>(milliseconds);
}

// ---- synchronization

void synchronize(StreamHandle* stream, Loc loc) {
  refuse_in_capture("synchronize()", loc);
  check(cudaStreamSynchronize(native(stream)), "waiting for a stream", loc);
  raise_faults(loc);
}
void synchronize(Loc loc) { synchronize(current_stream(), loc); }
void synchronize_device(int device, Loc loc) {
  refuse_in_capture("synchronize_device()", loc);
  const DeviceGuard guard(device, loc);
  check(cudaDeviceSynchronize(), "waiting for the device", loc);
  raise_faults(loc);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
