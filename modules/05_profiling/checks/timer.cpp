#include <support/check.hpp>
#include <thread>
#include <tinytorch/core/allocation_observer.hpp>
#include <tinytorch/profiling/timer.hpp>

using namespace course;
using namespace profiling;

namespace {

// A simulated clock: call i takes length(i) seconds, and each reading of the clock takes `tick`.
struct World {
  std::function<double(int)> length;
  double tick = 0, now = 1000;
  Numbers calls;  // seconds of each call, including the warm-up calls

  void call() {
    calls.push_back(length(static_cast<int>(calls.size())));
    now += calls.back();
  }
  double look() { return now += tick; }
  Timing time(const TimingOptions& options) {
    return time_on(
        cpu, [this] { call(); }, options, [this] { return look(); });
  }
};

void expect_seconds(const std::string& what, double got, double want) {
  expect_close(what, {got}, {want}, {}, {.dtype = f64, .roundings = 1e4});
}

// Finds the block that time_on allocates and writes before each cold call.
struct BlockWatcher final : AllocationObserver {
  char* block = nullptr;
  size_t bytes = 0;
  AllocationObserver* before;
  BlockWatcher() : before(observe_allocations(this)) {}
  ~BlockWatcher() override { observe_allocations(before); }
  void allocated(Device, const void* b, size_t n) override {
    block = static_cast<char*>(const_cast<void*>(b));
    bytes = n;
  }
  void freed(Device, const void* b, size_t) noexcept override {
    if (b == block) block = nullptr;
  }
  // The call overwrites the whole block, as if its data filled the cache.
  void use() const { std::memset(block, 0x6e, bytes); }
  int64_t left() const { return std::count(block, block + bytes, char{0x6e}); }
};

}  // namespace

TEST_CASE("5.1 a stopwatch measures from its last start") {
  double now = 5;
  const auto clock = [&now] { return now; };
  Stopwatch watch(cpu, clock);
  watch.start();
  now = 7;
  expect_seconds("stop() at 7 after start() at 5", watch.stop(), 2);
  now = 100;
  watch.start();
  now = 100.5;
  expect_seconds("stop() at 100.5 after start() at 5, stop() at 7 and start() at 100", watch.stop(), 0.5);
  now = 200;
  watch.start();
  now = 300;
  watch.start();
  now = 303;
  expect_seconds("stop() at 303 after start() at 200 and at 300", watch.stop(), 3);
}

TEST_CASE("5.1 a real wait takes at least as long") {
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  Stopwatch watch(cpu);
  watch.start();
  wait();
  const double seconds = watch.stop();
  expect("a wait of 0.001 s takes at least 0.001 s on the machine's clock; got " + shown(seconds) + " s",
         seconds >= 0.001 && seconds < 10, "the result is in seconds");
  const Timing t = time_on(cpu, wait, {.seconds = 0.005, .warm_up = {.seconds_limit = 0.005}});
  expect("time_on of a wait of 0.001 s: median " + shown(t.median), t.median >= 0.001 && t.median < 10);
  for (const double s : t.seconds) expect("each call takes 0.001 s or longer, got " + shown(s), s >= 0.001);
}

TEST_CASE("5.1 each call is timed separately, in order, and warm-up calls are not reported") {
  // The first 12 calls are slow, then calls are steady, then they alternate.
  World world{[](int i) { return i < 12 ? 90.0 - i : i < 30 ? 8.0 : 8.0 + 0.25 * (i % 3); }};
  const Timing t = world.time({.seconds = 1, .fewest = 25, .most = 1000, .warm_up = {.seconds_limit = 1e6}});
  const size_t all = world.calls.size(), reported = t.seconds.size();
  expect("number of reported calls: " + std::to_string(reported) + " of " + std::to_string(all),
         reported > 0 && reported < all,
         reported >= all ? "does the list include the warm-up calls?"
                         : "t.seconds must hold the time of each call");
  expect_equal("number of reported calls, if options.fewest is 25 and there is no time for more", reported,
               size_t{25});
  const Numbers want(world.calls.end() - 25, world.calls.end());
  expect("number of warm-up calls before these: " + std::to_string(all - 25) +
             ", of which the first 12 are slow",
         all - 25 >= 15, "benchmarking::warm_up continues until two medians agree");
  const bool same =
      std::all_of(t.seconds.begin(), t.seconds.end(), [&](double s) { return s == t.seconds[0]; });
  expect("calls of 8, 8.25 and 8.5 s have different times; got " + shown(t.seconds), !same,
         "is the clock read only once around all calls?");
  expect_close("seconds of each of the last 25 calls", t.seconds, want, {25},
               {.dtype = f64, .roundings = 1e4});
}

TEST_CASE("5.1 the median, with its interval: outliers do not move it") {
  World world{[](int i) { return i < 10 ? 4.0 : i % 5 == 0 ? 1000.0 : 4.0 + (i * 37 % 101) / 128.0; }};
  const Timing t = world.time({.seconds = 1, .fewest = 101, .warm_up = {.seconds_limit = 1e6}});
  Numbers sorted = t.seconds;
  expect_equal("calls", sorted.size(), size_t{101});
  std::sort(sorted.begin(), sorted.end());
  const double mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / 101;
  expect("a fifth of the calls takes 1000 s: the median is " + shown(sorted[50]) + ", got " + shown(t.median),
         t.median == sorted[50], std::abs(t.median - mean) < 1e-6 ? "this is the mean" : "");
  const auto rank = [&](double x) {
    return std::lower_bound(sorted.begin(), sorted.end(), x) - sorted.begin();
  };
  expect(
      "the interval contains the median, but not all times: of 101 sorted times, low is no. " +
          std::to_string(rank(t.low)) + " and high no. " + std::to_string(rank(t.high)),
      rank(t.low) >= 30 && rank(t.low) < 50 && rank(t.high) > 50 && rank(t.high) <= 70,
      "the 95 % interval of the median of 101 calls is about no. 40 to 60; use statistics::bootstrap_median");
}

TEST_CASE("5.1 as many calls as fit into the time, within limits") {
  const auto calls = [](double length, TimingOptions options) {
    World world{[length](int) { return length; }};
    options.warm_up.seconds_limit = 1e6;
    return static_cast<int64_t>(world.time(options).seconds.size());
  };
  expect_equal("calls of 0.5 s in 20 s", calls(0.5, {.seconds = 20}), int64_t{40});
  expect_equal("calls of 0.5 s in 2 s, but at least 11", calls(0.5, {.seconds = 2}), int64_t{11});
  expect_equal("calls of 0.5 s in 200 s, but at most 30", calls(0.5, {.seconds = 200, .most = 30}),
               int64_t{30});
}

TEST_CASE("5.1 the overhead is the time of an empty span, and is not subtracted") {
  World world{[](int) { return 2.0; }, 0.125};  // each reading of the clock takes 0.125 s
  const Timing t = world.time({.seconds = 1, .fewest = 11, .warm_up = {.seconds_limit = 1e6}});
  expect(
      "a reading of the clock takes 0.125 s, a call 2 s: the overhead is 0.125, got " + shown(t.overhead),
      std::abs(t.overhead - 0.125) < 1e-9,
      t.overhead > 1 ? "the span must be empty: is f() called in it?" : "call stop() directly after start()");
  expect("the reported time is the measured time, 2.125 s; got " + shown(t.median),
         std::abs(t.median - 2.125) < 1e-9,
         std::abs(t.median - 2) < 1e-9 ? "the overhead was subtracted, but it must only be reported" : "");
}

TEST_CASE("5.1 settled says whether the warm-up became steady") {
  World steady{[](int) { return 3.0; }};
  expect_equal("settled of calls that all take 3 s",
               steady.time({.seconds = 1, .warm_up = {.seconds_limit = 1e6}}).settled, true);
  World falling{[](int i) { return 100.0 / (1 + i); }};
  expect_equal("settled of calls that are still becoming shorter at the end of the warm-up's time",
               falling.time({.seconds = 1, .warm_up = {.seconds_limit = 50}}).settled, false);
}

TEST_CASE("5.1 cold runs write other memory before each call, outside the timed span") {
  BlockWatcher watcher;
  int64_t left_at_last_look = -1, seen = 0;
  Numbers in_call, at_start;  // bytes of the previous call that were not overwritten
  const auto call = [&] {
    if (!watcher.block) return;
    in_call.push_back(static_cast<double>(watcher.left()));
    at_start.push_back(static_cast<double>(left_at_last_look));
    watcher.use();
    ++seen;
  };
  const auto clock = [&] {
    left_at_last_look = watcher.block ? watcher.left() : -1;
    return static_cast<double>(seen);
  };
  TimingOptions options{.seconds = 1, .fewest = 11, .most = 11, .cold = true, .flush_bytes = 5000};
  options.warm_up.seconds_limit = 10;
  const Timing t = time_on(cpu, call, options, clock);
  expect_equal("size of the written block, with options.flush_bytes = 5000", watcher.bytes, size_t{5000});
  expect("there are at least 16 calls", seen >= 16);
  for (size_t i = 0; i < in_call.size(); ++i) {
    const std::string which = "of the 5000 bytes that call " + std::to_string(i) + " of " +
                              std::to_string(in_call.size()) +
                              " finds in the cache, the number left by the previous call is ";
    expect(which + shown(in_call[i]), in_call[i] == 0,
           in_call[i] == 5000 ? "nothing was written before this call"
                              : "every byte of the block must be written");
    expect("the block was written before the clock was read, for call " + std::to_string(i), at_start[i] == 0,
           "the flush is inside the timed span");
  }
  BlockWatcher hot;
  options.cold = false;
  time_on(
      cpu, [&] { ++seen; }, options, [&] { return static_cast<double>(seen); });
  expect_equal("bytes written before a hot call", hot.bytes, size_t{0});
}
