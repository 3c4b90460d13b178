// Timing against sleeps of known length, on the CPU and on a GPU.
#include <chrono>
#include <support/device.hpp>
#include <thread>
#include <tinytorch/profiling/timer.hpp>

namespace tt = tinytorch;
using namespace tinytorch::profiling;

namespace {
const TimingOptions kShort{.seconds = 0.05, .warm_up = {.seconds_limit = 0.05}};
}

TEST_CASE("a call of known length is timed, each call on its own") {
  int calls = 0;
  const Timing t = time_on(
      tt::cpu,
      [&] {
        ++calls;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      },
      kShort);
  CHECK(t.median >= 0.002);
  CHECK(t.low <= t.median);
  CHECK(t.median <= t.high);
  CHECK(t.seconds.size() >= 11);
  CHECK(calls > static_cast<int>(t.seconds.size()));  // those of the warm-up as well
  CHECK(*std::min_element(t.seconds.begin(), t.seconds.end()) >= 0.002);
  CHECK(t.overhead >= 0);
  CHECK(t.overhead < 1e-4);
}

TEST_CASE("the number of calls follows the time there is, within its limits") {
  TimingOptions options = kShort;
  options.most = 40;
  CHECK(time_on(
            tt::cpu, [] {}, options)
            .seconds.size() == 40);
}

TEST_CASE("cold: what a call reads is not in the cache, so it takes longer") {
  constexpr size_t kCount = 1 << 18;  // 1 MiB of int
  std::vector<int> data(kCount, 1);
  volatile int64_t sink = 0;
  const auto read = [&] {
    int64_t sum = 0;
    for (size_t i = 0; i < kCount; i += 16) sum += data[i];  // one of each cache line
    sink = sink + sum;
  };
  TimingOptions cold = kShort;
  cold.cold = true;
  const double hot_seconds = time_on(tt::cpu, read, kShort).median;
  const double cold_seconds = time_on(tt::cpu, read, cold).median;
  CHECK(cold_seconds > 1.2 * hot_seconds);
}

TEST_CASE("a flush is twice the largest cache") {
  CHECK(last_cache_bytes(tt::cpu) >= size_t{1} << 18);
  const size_t before = tt::allocator_stats().current;
  {
    const CacheFlush flush(tt::cpu);
    CHECK(tt::allocator_stats().current == before + 2 * last_cache_bytes(tt::cpu));
  }
  CHECK(tt::allocator_stats().current == before);
}

TEST_CASE("on a GPU the stream's time counts, not the host's" * test::needs_devices()) {
  const test::DeviceBytes small(64);
  const Timing t = time_on(
      tt::cuda, [&] { small.fill(1); }, kShort);
  CHECK(t.median > 0);
  CHECK(t.overhead >= 0);
  if (!test::kEmulated) {
    const test::DeviceBytes large(size_t{1} << 30);
    CHECK(time_on(
              tt::cuda, [&] { large.fill(1); }, kShort)
              .median > 5 * t.median);
  }
}
