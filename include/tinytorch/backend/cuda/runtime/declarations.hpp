// The declarations behind runtime.hpp, which adds their definitions for a build without CUDA.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tinytorch/core/device.hpp>
#include <tinytorch/core/error.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Whether this program contains the CUDA backend. Whether it can run is is_available().
constexpr bool is_built() { return TINYTORCH_WITH_CUDA != 0; }

// ---- devices

bool is_available();  // built with CUDA, and a device and its driver answer; never throws
int device_count();   // 0 without a device or driver; never throws

struct DeviceProperties {
  std::string name;
  int major = 0, minor = 0;            // compute capability, 9.0 for Hopper
  int multiprocessors = 0;             // streaming multiprocessors (SMs)
  int threads_per_multiprocessor = 0;  // most resident threads
  size_t shared_per_block = 0;         // bytes of shared memory a block gets without asking
  size_t shared_per_block_optin = 0;   // bytes a block gets when it asks (launch() asks)
  size_t shared_per_multiprocessor = 0;
  size_t l2_bytes = 0;
  size_t memory_bytes = 0;
};
const DeviceProperties& properties(int device, TT_LOC);  // read once, then remembered

struct DeviceMemory {
  size_t free = 0, total = 0;  // bytes of the whole device, all programs together
};
DeviceMemory device_memory(int device, TT_LOC);

int driver_version();   // 13000 means CUDA 13.0; 0 without a driver
int runtime_version();  // of the library this program was linked with

int current_device();  // of the calling thread; 0 until set
void set_device(int device, TT_LOC);

// Makes `device` the calling thread's device until the end of the scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device, TT_LOC) : before_(current_device()) {
    if (device != before_) set_device(device, loc);
    changed_ = device != before_;
  }
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_;
  bool changed_ = false;
};

// ---- order

struct StreamHandle;  // a cudaStream_t is a StreamHandle*; null is the default stream
struct EventHandle;   // a cudaEvent_t is an EventHandle*

// The stream that kernels, copies and allocations of the calling thread use. Each thread starts with the
// default stream of each device.
StreamHandle* current_stream(int device);
StreamHandle* current_stream();  // of the current device
void set_current_stream(StreamHandle* stream, int device);

class Event;

// A queue of work beside the default stream ("non-blocking": neither waits for the other).
class Stream {
 public:
  // Lower numbers are served first; a device has few levels (0 and -5 to -1 on current ones), others are
  // clamped.
  explicit Stream(int device = current_device(), int priority = 0, TT_LOC);
  ~Stream();
  Stream(Stream&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), device_(other.device_), priority_(other.priority_) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(device_, other.device_);
    std::swap(priority_, other.priority_);
    return *this;
  }

  StreamHandle* handle() const { return handle_; }
  int device() const { return device_; }
  bool is_idle(TT_LOC) const;                   // all queued work is done
  void synchronize(TT_LOC) const;               // waits for it
  void wait(const Event& event, TT_LOC) const;  // work queued from now on starts after the event

 private:
  StreamHandle* handle_ = nullptr;
  int device_ = 0, priority_ = 0;
};

// Makes `stream` the current stream of its device, and its device the current one, until the end of the
// scope.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream, TT_LOC) : StreamGuard(stream.handle(), stream.device(), loc) {}
  StreamGuard(StreamHandle* stream, int device, TT_LOC);
  ~StreamGuard() { set_current_stream(before_, device_); }
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  StreamHandle* before_;
  int device_;
  DeviceGuard device_guard_;
};

// A mark in a stream: reached when all work queued before it is done.
class Event {
 public:
  explicit Event(bool timed = true, int device = current_device(), TT_LOC);
  ~Event();
  Event(Event&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), device_(other.device_), timed_(other.timed_) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(device_, other.device_);
    std::swap(timed_, other.timed_);
    return *this;
  }

  EventHandle* handle() const { return handle_; }
  void record(TT_LOC);  // into the current stream of the event's device
  void record(const Stream& stream, TT_LOC);
  void wait(TT_LOC) const;  // work queued from now on into that stream starts after the event
  bool is_reached(TT_LOC) const;
  void synchronize(TT_LOC) const;
  double milliseconds_since(const Event& earlier, TT_LOC) const;  // waits for this event; both must be timed

 private:
  EventHandle* handle_ = nullptr;
  int device_ = 0;
  bool timed_ = true;
};

// Wait for all work of the current stream, of a stream, or of every stream of a device. Errors of kernels
// that ran in the meantime are reported here, with the names of the last kernels launched.
void synchronize(TT_LOC);
void synchronize(StreamHandle* stream, TT_LOC);
void synchronize_device(int device, TT_LOC);

// Throws what the device found wrong with the data of ops that are done (fault.hpp: check_range); every
// synchronization does this.
void raise_faults(TT_LOC);

// ---- memory

// Memory of `device`, aligned to 512 bytes, for the current stream: a freed block is reused by later work of
// the same stream without waiting. Throws TT-MEM-02 when the device is full.
void* allocate(size_t bytes, int device, TT_LOC);
void deallocate(void* block, size_t bytes, int device) noexcept;
// Says that work queued on `stream` uses the block, so that it is not reused before that work is done. Needed
// when a tensor made on one stream is used on another.
void record_stream(void* block, int device, StreamHandle* stream, TT_LOC);

struct MemoryStats {
  size_t current = 0;        // bytes in use by live tensors
  size_t peak = 0;           // largest value of current since the last reset_peak()
  size_t reserved = 0;       // bytes taken from the device: in use, lost to rounding, or kept for reuse
  size_t peak_reserved = 0;  // since the last reset_peak()
  size_t cached = 0;         // free bytes kept for reuse
  size_t largest_free = 0;   // largest single block of them
  size_t allocations = 0;    // number of requests so far
  size_t device_calls = 0;   // how many of them had to ask the driver
  // Share of the cache that a request of its whole size could not use: 0 when it is one block.
  double fragmentation() const {
    return cached == 0 ? 0.0 : 1.0 - static_cast<double>(largest_free) / static_cast<double>(cached);
  }
};
MemoryStats memory_stats(int device);
void reset_peak(int device);
// Gives every segment without a live block back to the device; waits for the device. Not during a capture.
void release_cached(int device, TT_LOC);

// Whether freed memory is kept for reuse. Without, each tensor is an allocation of its own, so that
// compute-sanitizer and the emulator see its exact bounds. Also by the environment: TINYTORCH_CUDA_CACHE=0
// or 1. On by default, off in the emulator.
bool is_caching();
void set_caching(bool on);

// Page-locked host memory, which the device copies from and to while the program goes on. Kept for reuse.
void* allocate_pinned(size_t bytes, TT_LOC);
void deallocate_pinned(void* block) noexcept;
bool is_pinned(const void* block);  // inside a live block of allocate_pinned()
MemoryStats pinned_stats();
void release_pinned();

// ---- copies

// Copies in the order of the current stream. When it returns, `from` may be changed, and a `to` on the CPU is
// complete; the program waits for the device only where that needs it. CPU to CPU is a plain copy. Refused
// with TT-CUDA-05 during a capture unless both sides are on devices.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes, TT_LOC);
// The same without waiting; a side on the CPU must be pinned, and left alone until the stream has come by.
// Allowed during a capture: a replay copies again, from and to the same addresses.
void copy_bytes_async(void* to, Device to_device, const void* from, Device from_device, size_t bytes, TT_LOC);
void fill_bytes(void* to, int value, size_t bytes, int device, TT_LOC);  // each byte, in stream order

// ---- captures (graph.hpp)

// Whether the calling thread is capturing a graph.
bool is_capturing();
// Throws TT-CUDA-05 during a capture: `what` needs the host to see the device's results.
void refuse_in_capture(const char* what, TT_LOC);
// Device memory of how many blocks of the default generator (core/random.hpp) were used since the capture
// began, for a kernel to add to its first block. The capture itself uses no block, each replay as many as the
// captured step asked for. Null outside of a capture, and for the seed of another generator, whose numbers
// each replay repeats.
const uint64_t* random_offset(uint64_t seed);

// ---- profiling

// Off, a range costs one load. On by show_ranges(true) or by the environment: TINYTORCH_RANGES=1.
inline std::atomic<bool> ranges_flag{false};
inline bool ranges_shown() { return ranges_flag.load(std::memory_order_relaxed); }
inline void show_ranges(bool on) { ranges_flag = on; }
void push_range(const char* name);
void pop_range();
// Spans the life of the object. Names are kept by the profiler, so any string will do.
class RangeGuard {
 public:
  explicit RangeGuard(const char* name) : on_(ranges_shown()) {
    if (on_) push_range(name);
  }
  // The name is formed only where it is shown.
  template <class MakeName>
  requires std::invocable<MakeName>
  explicit RangeGuard(MakeName&& make_name) : on_(ranges_shown()) {
    if (on_) push_range(make_name().c_str());
  }
  ~RangeGuard() {
    if (on_) pop_range();
  }
  RangeGuard(const RangeGuard&) = delete;
  RangeGuard& operator=(const RangeGuard&) = delete;

 private:
  bool on_;
};

// ---- launches

// Called after each launch with the name of what was launched. A build with assertions waits for the kernel
// and reports its error at once; others remember the last 8 names for the report at the next synchronization.
void note_launch(const char* kernel);
void check_after_launch(const char* kernel);
// Whether launches are counted (launches.hpp); then each is told by name, and a kernel's with what it asks
// for.
inline std::atomic<bool> launches_flag{false};
inline bool launches_counted() { return launches_flag.load(std::memory_order_relaxed); }
void count_launch(const char* name);
void describe_launch(const void* kernel, int threads, size_t dynamic_shared);

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
