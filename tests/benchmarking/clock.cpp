// SteadyClock returns seconds and never goes back.
#include <doctest/doctest.h>

#include <thread>
#include <tinytorch/benchmarking/clock.hpp>

TEST_CASE("SteadyClock measures at least the length of a wait, and never goes back") {
  const tinytorch::benchmarking::SteadyClock clock;
  double last = clock();
  for (int i = 0; i < 1000; ++i) {
    const double now = clock();
    CHECK(now >= last);
    last = now;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(clock() - last >= 0.005);
  CHECK(clock() - last < 60);
}
