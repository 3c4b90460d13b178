// Timer: the time of one call on a device, with hot or cold caches.
//
// The frame of a course header: it has the given parts, and includes the functions of task 5.1. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <unistd.h>

#include <cstring>
#include <optional>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::profiling {

struct TimingOptions {
  double seconds = 0.3;              // approximate duration of the measurement
  int64_t fewest = 11, most = 1000;  // calls
  bool cold = false;
  size_t flush_bytes = 0;  // written before each cold call; 0: twice the largest cache
  benchmarking::WarmUpOptions warm_up{.seconds_limit = 1};
};

struct Timing {
  double median = 0;            // seconds per call
  double low = 0, high = 0;     // interval of the median: 95 % if calls are independent, see bootstrap_median
  std::vector<double> seconds;  // time of each call
  double overhead = 0;          // median of an empty call
  bool settled = false;         // true if the warm-up ended because times were steady
};

// Measures time spans on one device, one at a time: by `clock_` on the CPU, by two events in the stream on a
// GPU.
template <class Clock = benchmarking::SteadyClock>
class Stopwatch {
 public:
  explicit Stopwatch(Device device, Clock clock = {}) : clock_(std::move(clock)) {
    if (device.is_cuda()) events_.emplace(Events{device});
  }
  void start();   // task 5.1
  double stop();  // task 5.1

 private:
  struct Events {
    explicit Events(Device device) : begin(true, device.index), end(true, device.index) {}
    backend::cuda::Event begin, end;
  };
  Clock clock_;
  double start_ = 0;
  std::optional<Events> events_;
};

// The size of the largest cache in bytes: the L2 cache of a GPU; on a CPU the last level that the system
// reports, else 64 MiB.
inline size_t last_cache_bytes(Device device) {
  if (device.is_cuda()) return backend::cuda::properties(device.index).l2_bytes;
#ifdef _SC_LEVEL3_CACHE_SIZE
  if (const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE); bytes > 0) return static_cast<size_t>(bytes);
#endif
  return size_t{64} << 20;
}

// A block of `bytes` bytes, by default twice the largest cache. Writing it evicts all other data from the
// caches.
class CacheFlush {
 public:
  explicit CacheFlush(Device device, size_t bytes = 0)
      : device_(device), bytes_(bytes > 0 ? bytes : 2 * last_cache_bytes(device)) {
    block_ = device.is_cuda() ? backend::cuda::allocate(bytes_, device.index)
                              : HostAllocator::instance().allocate(bytes_);
  }
  ~CacheFlush() {
    if (device_.is_cuda()) {
      backend::cuda::deallocate(block_, bytes_, device_.index);
    } else {
      HostAllocator::instance().deallocate(block_, bytes_);
    }
  }
  CacheFlush(const CacheFlush&) = delete;
  CacheFlush& operator=(const CacheFlush&) = delete;

  void operator()();  // task 5.1

 private:
  Device device_;
  size_t bytes_;
  void* block_;
  unsigned char value_ = 0;
};

template <class F, class Clock = benchmarking::SteadyClock>
Timing time_on(Device device, F&& f, const TimingOptions& options = {}, Clock clock = {});  // task 5.1

}  // namespace tinytorch::inline TT_BUILD::profiling

#include <tasks/profiling/timer.hpp>
