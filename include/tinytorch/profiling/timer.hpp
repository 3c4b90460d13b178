// Timer: the time of one call on a device, with hot or cold caches.
//
//   const Timing t = profiling::time_on(tt::cuda, [&] { y = matmul(a, b); });
//   t.median, t.low, t.high          // seconds per call, with a confidence interval
//
// On the CPU a call is timed by the monotonic clock. On a GPU it is timed by an event in the stream before
// and after it, so that the host's own time does not count, but waiting for the host does. Warm-up calls come
// first and are not reported (benchmarking/measure.hpp). Cold: before each call, more memory than the
// last-level cache holds is written. Nothing is subtracted; `overhead` is the measured time of an empty call.
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
  // Begins a span. A span that was begun before is discarded.
  void start() {
    if (events_) return events_->begin.record();
    start_ = clock_();
  }
  // Seconds since the last start(). On a GPU it waits for the second event.
  double stop() {
    if (!events_) return clock_() - start_;
    events_->end.record();
    return events_->end.milliseconds_since(events_->begin) * 1e-3;
  }

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

  // Writes every byte of the block.
  void operator()() {
    ++value_;
    if (device_.is_cuda()) return backend::cuda::fill_bytes(block_, value_, bytes_, device_.index);
    parallel_for(static_cast<int64_t>(bytes_), 1 << 20, [&](int64_t begin, int64_t end) {
      std::memset(static_cast<char*>(block_) + begin, value_, static_cast<size_t>(end - begin));
    });
  }

 private:
  Device device_;
  size_t bytes_;
  void* block_;
  unsigned char value_ = 0;
};

// Measures the time of f() on the device.
//   1  overhead: the median of 101 empty spans
//   2  warm-up calls by benchmarking::warm_up with this clock; their times are not reported
//   3  as many calls as benchmarking::calls_within returns for the warm-up's median, each in its own span;
//      `seconds` holds all of them, in order
//   4  their median and its interval: statistics::bootstrap_median with 1000 draws
// Cold: a flush precedes each call, also in the warm-up, and is not part of its span.
template <class F, class Clock = benchmarking::SteadyClock>
Timing time_on(Device device, F&& f, const TimingOptions& options = {}, Clock clock = {}) {
  Stopwatch watch(device, clock);
  std::optional<CacheFlush> flush;
  if (options.cold) flush.emplace(device, options.flush_bytes);
  const auto once = [&](auto&& call) {
    if (flush) (*flush)();
    watch.start();
    call();
    return watch.stop();
  };
  Timing t;
  std::vector<double> empty;
  for (int i = 0; i < 101; ++i) {
    watch.start();
    empty.push_back(watch.stop());
  }
  t.overhead = statistics::median(empty);
  const auto warm = benchmarking::warm_up([&] { once(f); }, options.warm_up, clock);
  t.settled = warm.settled;
  const int64_t calls =
      benchmarking::calls_within(options.seconds, warm.median, options.fewest, options.most);
  for (int64_t i = 0; i < calls; ++i) t.seconds.push_back(once(f));
  const statistics::Interval interval = statistics::bootstrap_median(t.seconds, {.draws = 1000});
  t.median = interval.estimate, t.low = interval.low, t.high = interval.high;
  return t;
}

}  // namespace tinytorch::inline TT_BUILD::profiling
