// The tests use a simulated clock, so every expected number is exact.
#include <doctest/doctest.h>

#include <cmath>
#include <thread>
#include <tinytorch/benchmarking/measure.hpp>

namespace bm = tinytorch::benchmarking;

namespace {
struct FakeTime {
  double now = 0;
  auto clock() {
    return [this] { return now; };
  }
};
}  // namespace

TEST_CASE("time_calls times each call separately") {
  FakeTime time;
  int call = 0;
  const auto seconds = bm::time_calls([&] { time.now += ++call; }, 4, time.clock());
  CHECK(seconds == std::vector<double>{1, 2, 3, 4});
  CHECK(bm::time_calls([] {}, 0).empty());
}

TEST_CASE("the default clock measures real time") {
  const auto seconds = bm::time_calls([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }, 2);
  for (const double s : seconds) CHECK((s >= 0.02 && s < 2.0));
}

TEST_CASE("warm_up ends when two medians agree, and not before") {
  FakeTime time;
  int call = 0;
  // 3 windows with falling times, then constant times.
  const auto result =
      bm::warm_up([&] { time.now += call++ < 15 ? 0.01 * (16 - call) : 0.005; }, {.window = 5}, time.clock());
  CHECK(result.settled);
  CHECK(result.calls == 25);
  CHECK(result.median == doctest::Approx(0.005));
  CHECK(result.seconds == doctest::Approx(time.now));
}

TEST_CASE("warm_up without settled times ends at the limit and reports it") {
  FakeTime time;
  double step = 0.1;
  const auto result =
      bm::warm_up([&] { time.now += step *= 1.1; }, {.window = 1, .seconds_limit = 3}, time.clock());
  CHECK_FALSE(result.settled);
  CHECK(result.seconds >= 3);
  CHECK(result.seconds < 3 + step * 1.01);
}

TEST_CASE("calls_within is the number of calls that fit, within its bounds") {
  CHECK(bm::calls_within(1.0, 0.1, 2, 50) == 10);
  CHECK(bm::calls_within(1.0, 0.9, 2, 50) == 2);
  CHECK(bm::calls_within(1.0, 1e-9, 2, 50) == 50);
  CHECK(bm::calls_within(1.0, 0, 2, 50) == 50);
}

TEST_CASE("take_turns follows the order of the blocks; a block gives one value, in which drift cancels") {
  std::vector<size_t> order;
  double slower = 1;
  const auto values = bm::take_turns({{0, 1, 1, 0}, {1, 0, 0, 1}}, [&](size_t i) {
    order.push_back(i);
    slower *= 1.5;  // in every turn
    return slower * (i == 0 ? 1.0 : 2.0);
  });
  CHECK(order == std::vector<size_t>{0, 1, 1, 0, 1, 0, 0, 1});
  REQUIRE(values.size() == 2);
  REQUIRE(values[0].size() == 2);
  CHECK(values[0][0] == doctest::Approx(std::pow(1.5, 2.5)));
  for (size_t b = 0; b < 2; ++b) CHECK(values[1][b] / values[0][b] == doctest::Approx(2));
  const auto once = bm::take_turns({{2, 0, 1}}, [](size_t i) { return static_cast<double>(i + 1); });
  REQUIRE(once.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(once[i][0] == doctest::Approx(static_cast<double>(i + 1)));
  CHECK(bm::take_turns({}, [](size_t) { return 1.0; }).empty());
}
