// Declarations of the CUDA runtime layer. Include runtime.hpp, which adds the definitions for a build without
// CUDA.
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

// True if this program contains the CUDA backend. is_available() tells whether it can run here.
constexpr bool is_built() { return TINYTORCH_WITH_CUDA != 0; }

// ---- devices

bool is_available();  // built with CUDA, with a device and its driver; never throws
int device_count();   // 0 without a device or driver; never throws

struct DeviceProperties {
  std::string name;
  int major = 0, minor = 0;            // compute capability, 9.0 for Hopper
  int multiprocessors = 0;             // streaming multiprocessors (SMs)
  int threads_per_multiprocessor = 0;  // most resident threads
  size_t shared_per_block = 0;         // bytes of shared memory per thread block without opt-in
  size_t shared_per_block_optin = 0;   // bytes per thread block with opt-in (launch() opts in)
  size_t shared_per_multiprocessor = 0;
  size_t l2_bytes = 0;
  size_t memory_bytes = 0;
};
const DeviceProperties& properties(int device, TT_LOC);  // read once, then remembered

struct DeviceMemory {
  size_t free = 0, total = 0;  // bytes of the whole device, for all programs
};
DeviceMemory device_memory(int device, TT_LOC);

int driver_version();   // 13000 means CUDA 13.0; 0 without a driver
int runtime_version();  // version of the CUDA runtime library of this program

int current_device();  // device of the calling thread; 0 until set
void set_device(int device, TT_LOC);

// Makes `device` the calling thread's CUDA device until the end of the scope. The CPU changes nothing.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device, TT_LOC)
      : DeviceGuard(device.is_cpu() ? current_device() : device.index, loc) {}
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

// ---- streams and events

struct StreamHandle;  // a cudaStream_t is a StreamHandle*; null is the default stream
struct EventHandle;   // a cudaEvent_t is an EventHandle*

// The stream that kernels, copies and allocations of the calling thread use. Each thread starts with the
// default stream of each device.
StreamHandle* current_stream(int device);
StreamHandle* current_stream();  // for the current device
void set_current_stream(StreamHandle* stream, int device);

class Event;

// A non-blocking stream: a work queue that does not synchronize with the default stream.
class Stream {
 public:
  // A lower number means a higher priority. The number is clamped to the levels of the device (0 to -5 on
  // current devices).
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
  bool is_idle(TT_LOC) const;                   // true if all queued work is done
  void synchronize(TT_LOC) const;               // waits for all queued work
  void wait(const Event& event, TT_LOC) const;  // work queued from now on starts after the event

 private:
  StreamHandle* handle_ = nullptr;
  int device_ = 0, priority_ = 0;
};

// Makes `stream` the current stream of its device, and its device the current device, until the end of the
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

// A CUDA event: a marker in a stream, reached when all work queued before it is done.
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
  void record(TT_LOC);  // in the current stream of the event's device
  void record(const Stream& stream, TT_LOC);
  void wait(TT_LOC) const;  // work queued from now on in that current stream starts after the event
  bool is_reached(TT_LOC) const;
  void synchronize(TT_LOC) const;
  double milliseconds_since(const Event& earlier, TT_LOC) const;  // waits for this event; both must be timed

 private:
  EventHandle* handle_ = nullptr;
  int device_ = 0;
  bool timed_ = true;
};

// Waits for all work of the current stream, of `stream`, or of every stream of `device`. Errors of kernels
// that ran in the meantime are thrown here, with the names of the last kernels launched.
void synchronize(TT_LOC);
void synchronize(StreamHandle* stream, TT_LOC);
void synchronize_device(int device, TT_LOC);

// Throws the error that a finished kernel recorded about its data, if there is one (fault.hpp: check_range).
// Every synchronize function calls this.
void raise_faults(TT_LOC);

// ---- memory

// Allocates memory of `device`, aligned to 512 bytes, for the current stream: later work of the same stream
// reuses a freed block without waiting. Throws TT-MEM-02 if the device is full.
void* allocate(size_t bytes, int device, TT_LOC);
void deallocate(void* block, size_t bytes, int device) noexcept;
// Announces that work queued on `stream` uses the block, so that the block is not reused before that work is
// done. Call it if a tensor that was allocated on one stream is used on another.
void record_stream(void* block, int device, StreamHandle* stream, TT_LOC);

struct MemoryStats {
  size_t current = 0;        // bytes in use by live tensors
  size_t peak = 0;           // largest value of current since the last reset_peak()
  size_t reserved = 0;       // bytes allocated from the device: in use, lost to rounding, or kept for reuse
  size_t peak_reserved = 0;  // since the last reset_peak()
  size_t cached = 0;         // free bytes kept for reuse
  size_t largest_free = 0;   // largest free block, in bytes
  size_t allocations = 0;    // number of requests so far
  size_t device_calls = 0;   // number of those requests that called the driver
  // Fraction of the cached bytes outside the largest free block: 0 if the cache is one block.
  double fragmentation() const {
    return cached == 0 ? 0.0 : 1.0 - static_cast<double>(largest_free) / static_cast<double>(cached);
  }
};
MemoryStats memory_stats(int device);
void reset_peak(int device);
// Returns every segment without a live block to the device, except the segments of live graphs. Waits for the
// device. Throws TT-CUDA-05 during a capture.
void release_cached(int device, TT_LOC);

// Caching: freed memory is kept for reuse. Without caching, each tensor is a separate allocation, so that
// compute-sanitizer and the emulator see its exact bounds. Caching is on by default and off in the emulator;
// the environment variable TINYTORCH_CUDA_CACHE=0 or 1 sets it, too.
bool is_caching();
void set_caching(bool on);

// Pinned (page-locked) host memory: the device copies from and to it while the host continues. Freed blocks
// are kept for reuse.
void* allocate_pinned(size_t bytes, TT_LOC);
void deallocate_pinned(void* block) noexcept;
bool is_pinned(const void* block);  // true if the address is inside a live block of allocate_pinned()
MemoryStats pinned_stats();
void release_pinned();

// ---- copies

// Copies in the order of the current stream. After the call, `from` may be changed, and a `to` on the CPU is
// complete; the host waits for the device only where this requires it. CPU to CPU is a memmove. During a
// capture, a copy between the CPU and a device throws TT-CUDA-05.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes, TT_LOC);
// Copies like copy_bytes, but a copy between the CPU and a device does not wait. The memory on the CPU must
// stay unchanged until the stream has executed the copy. Throws TT-CUDA-03 unless that memory is pinned. It
// is allowed during a capture: each replay copies again, from and to the same addresses.
void copy_bytes_async(void* to, Device to_device, const void* from, Device from_device, size_t bytes, TT_LOC);
void fill_bytes(void* to, int value, size_t bytes, int device, TT_LOC);  // each byte, in stream order

// ---- captures (graph.hpp)

// True if the calling thread is capturing a graph.
bool is_capturing();
// Throws TT-CUDA-05 during a capture, for an operation `what` that needs results of the device on the host.
void refuse_in_capture(const char* what, TT_LOC);
// Address in device memory of the number of blocks of the default generator (core/random.hpp) that were used
// since the capture began; a kernel adds this number to its first block. The capture itself uses no block;
// each replay uses as many as the captured step requested. Returns null outside of a capture, and if `seed`
// is not the default generator's: each replay repeats the numbers of another generator.
const uint64_t* random_offset(uint64_t seed);

// ---- profiling

// Profiler ranges are off by default and then cost one load. show_ranges(true) or the environment variable
// TINYTORCH_RANGES=1 turns them on.
inline std::atomic<bool> ranges_flag{false};
inline bool ranges_shown() { return ranges_flag.load(std::memory_order_relaxed); }
inline void show_ranges(bool on) { ranges_flag = on; }
void push_range(const char* name);
void pop_range();
// A range for the lifetime of the object. The profiler copies the name, so the string may be temporary.
class RangeGuard {
 public:
  explicit RangeGuard(const char* name) : on_(ranges_shown()) {
    if (on_) push_range(name);
  }
  // make_name() is called only if ranges are shown.
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

// Both are called with the name of the kernel after its launch. note_launch() only keeps the name: the last 8
// names appear in the error report at the next synchronization. check_after_launch() also throws the error of
// the launch; in a build with assertions it waits for the kernel and throws the kernel's error, too.
void note_launch(const char* kernel);
void check_after_launch(const char* kernel);
// True while launches are counted (launches.hpp). Then count_launch() is called for each launch, and
// describe_launch() for each kernel of this library, with its threads per block and dynamic shared memory.
inline std::atomic<bool> launches_flag{false};
inline bool launches_counted() { return launches_flag.load(std::memory_order_relaxed); }
void count_launch(const char* name);
void describe_launch(const void* kernel, int threads, size_t dynamic_shared);

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
