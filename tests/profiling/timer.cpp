// Timing of sleeps of known length, on the CPU and on a GPU.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <support/device.hpp>
#include <thread>
#include <tinytorch/profiling/timer.hpp>

namespace tt = tinytorch;
using namespace tinytorch::profiling;

namespace {
const TimingOptions kShort{.seconds = 0.05, .warm_up = {.seconds_limit = 0.05}};
}

TEST_CASE("time_on times each call separately, with the known length of the call") {
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
  CHECK(calls > static_cast<int>(t.seconds.size()));  // includes the calls of the warm-up
  CHECK(*std::min_element(t.seconds.begin(), t.seconds.end()) >= 0.002);
  CHECK(t.overhead >= 0);
  CHECK(t.overhead < 1e-4);
}

TEST_CASE("the number of calls depends on the time limit, within its bounds") {
  TimingOptions options = kShort;
  options.most = 40;
  CHECK(time_on(
            tt::cpu, [] {}, options)
            .seconds.size() == 40);
}

TEST_CASE("cold: the data of a call is not in the cache, so the call takes longer") {
  // Pointer chasing: each cache line holds the index of the next, in a random order, so that an access
  // depends on the previous one. From memory this takes many times as long as from a cache, on any machine.
  constexpr size_t kLines = 1 << 14, kStep = 16;  // 1 MiB of int
  std::vector<int> next(kLines * kStep);
  std::vector<int> order(kLines);
  std::iota(order.begin(), order.end(), 0);
  tt::Generator random(1);
  for (size_t i = kLines - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  for (size_t i = 0; i < kLines; ++i) next[static_cast<size_t>(order[i]) * kStep] = order[(i + 1) % kLines];
  volatile int sink = 0;
  const auto chase = [&] {
    int at = order[0];
    for (size_t i = 0; i < kLines; ++i) at = next[static_cast<size_t>(at) * kStep];
    sink = at;
  };
  TimingOptions cold = kShort;
  cold.cold = true;
  const auto best = [&](const TimingOptions& options) {
    const Timing t = time_on(tt::cpu, chase, options);
    return *std::min_element(t.seconds.begin(), t.seconds.end());
  };
  CHECK(best(cold) > 1.5 * best(kShort));
}

TEST_CASE("a flush writes twice the size of the largest cache") {
  CHECK(last_cache_bytes(tt::cpu) >= size_t{1} << 18);
  const size_t before = tt::allocator_stats().current;
  {
    const CacheFlush flush(tt::cpu);
    CHECK(tt::allocator_stats().current == before + 2 * last_cache_bytes(tt::cpu));
  }
  CHECK(tt::allocator_stats().current == before);
}

TEST_CASE("on a GPU the time of the stream is measured, not the host's" * test::needs_devices()) {
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
