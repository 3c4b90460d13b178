#include <support/check.hpp>
#include <thread>
#include <tinytorch/benchmarking/measure.hpp>

using namespace course;
using namespace benchmarking;

namespace {

// A simulated clock: call i takes length(i) seconds, and each reading of the clock takes `tick`.
struct World {
  std::function<double(int)> length;
  double tick = 0, now = 500;
  int calls = 0;

  void call() { now += length(calls++); }
  auto f() {
    return [this] { call(); };
  }
  auto clock() {
    return [this] { return now += tick; };
  }
};
bool close(double got, double want) { return std::abs(got - want) <= 1e-9 * std::abs(want); }

}  // namespace

TEST_CASE("10.6 each call is timed separately, in order") {
  World world{[](int i) { return 1.0 + i; }};
  const Numbers seconds = time_calls(world.f(), 5, world.clock());
  expect_equal("calls of 1, 2, 3, 4, 5 s", seconds, Numbers{1, 2, 3, 4, 5});
  expect_equal("number of calls made by time_calls(f, 5)", world.calls, 5);
  World slow_clock{[](int) { return 2.0; }, 0.5};
  for (const double s : time_calls(slow_clock.f(), 4, slow_clock.clock()))
    expect("a call of 2 s, with clock readings of 0.5 s: 2.5 s, got " + shown(s), close(s, 2.5),
           "read the clock just before the call and just after it");
  World idle{[](int) { return 1.0; }};
  expect_equal("seconds of no calls", time_calls(idle.f(), 0, idle.clock()), Numbers{});
  expect_equal("number of calls made by time_calls(f, 0)", idle.calls, 0);
}

TEST_CASE("10.6 the default clock is the machine's") {
  const Numbers seconds = time_calls([] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }, 3);
  for (const double s : seconds)
    expect("a wait of 0.002 s takes at least 0.002 s, got " + shown(s), s >= 0.002 && s < 10);
}

TEST_CASE("10.6 warm-up runs windows of calls until two medians agree") {
  World world{[](int i) { return i < 12 ? 90.0 - i : 6.0; }};
  const WarmUp w = warm_up(world.f(), {.window = 4, .seconds_limit = 1e6}, world.clock());
  expect("12 slow calls, then calls of 6 s: settled", w.settled);
  expect_equal("number of calls in windows of 4, of which the fourth and fifth agree", w.calls, int64_t{20});
  expect_equal("number of calls that were made", world.calls, 20);
  expect("median of the last window: 6, got " + shown(w.median), close(w.median, 6));
  expect("seconds of the whole warm-up: " + shown(world.now - 500) + ", got " + shown(w.seconds),
         close(w.seconds, world.now - 500));
  World outlier{[](int i) { return i % 5 == 2 ? 1000.0 : 3.0; }};
  const WarmUp o = warm_up(outlier.f(), {.seconds_limit = 1e6}, outlier.clock());
  expect_equal("number of calls if one of five calls takes 1000 s: medians agree in the second window",
               o.calls, int64_t{10});
  expect("the median of these calls is 3, got " + shown(o.median), close(o.median, 3),
         close(o.median, 202.4) ? "this is the mean" : "");
  World loose{[](int i) { return 100.0 / (1 + i); }};
  const WarmUp l = warm_up(loose.f(), {.window = 1, .tolerance = 0.2, .seconds_limit = 1e6}, loose.clock());
  expect_equal(
      "number of calls of 100, 50, 33, 25, 20 s in windows of 1: the fifth is within 20 % of the fourth",
      l.calls, int64_t{5});
}

TEST_CASE("10.6 a warm-up that never settles is stopped and reported") {
  double step = 1;
  World world{[&](int) { return step *= 1.2; }};
  const WarmUp w = warm_up(world.f(), {.window = 3, .seconds_limit = 40}, world.clock());
  expect_equal("settled of calls that become slower each time", w.settled, false);
  double seconds = 0, length = 1;
  int calls = 0;
  while (seconds < 40) {
    for (int i = 0; i < 3; ++i) seconds += length *= 1.2;
    calls += 3;
  }
  expect_equal("calls until 40 s are over, in whole windows of 3", world.calls, calls);
  expect_equal("number of reported calls", w.calls, int64_t{calls});
  expect("seconds of the warm-up: " + shown(seconds) + ", got " + shown(w.seconds),
         close(w.seconds, seconds));
}

TEST_CASE("10.6 the number of calls that fit into a time") {
  expect_equal("calls_within(10, 0.5, 1, 100)", calls_within(10, 0.5, 1, 100), int64_t{20});
  expect_equal("calls_within(10, 0.3, 1, 100): 33.3, rounded down", calls_within(10, 0.3, 1, 100),
               int64_t{33});
  expect_equal("calls_within(10, 4, 5, 100): at least 5", calls_within(10, 4, 5, 100), int64_t{5});
  expect_equal("calls_within(10, 1e-12, 5, 100): at most 100", calls_within(10, 1e-12, 5, 100), int64_t{100});
  expect_equal("calls_within(10, 0, 5, 100): a time of 0 is below the resolution of the clock",
               calls_within(10, 0, 5, 100), int64_t{100});
  expect_equal("calls_within(1e300, 1e-300, 5, 100)", calls_within(1e300, 1e-300, 5, 100), int64_t{100});
  expect_equal("calls_within(10, NaN, 5, 100)", calls_within(10, NAN, 5, 100), int64_t{100});
}

TEST_CASE("10.6 turns are taken in the order of the blocks") {
  std::vector<size_t> order;
  const auto record = [&](size_t i) {
    order.push_back(i);
    return 1.0 + static_cast<double>(i);
  };
  const auto values = take_turns({{0, 1, 2, 2, 1, 0}, {2, 0, 1, 1, 0, 2}}, record);
  expect_equal("turns of blocks 0 1 2 2 1 0 and 2 0 1 1 0 2", order,
               std::vector<size_t>{0, 1, 2, 2, 1, 0, 2, 0, 1, 1, 0, 2});
  expect_equal("contenders", values.size(), size_t{3});
  for (size_t i = 0; i < 3; ++i) {
    expect_equal("values of contender " + shown(i) + " in 2 blocks", values[i].size(), size_t{2});
    for (const double v : values[i])
      expect("a value of contender " + shown(i) + ", whose turns all give " + shown(1.0 + double(i)) +
                 "; got " + shown(v),
             close(v, 1.0 + double(i)));
  }
  expect_equal("take_turns without blocks: number of contenders", take_turns({}, record).size(), size_t{0});
  int n = 0;
  const auto once = take_turns({{1, 0}, {0, 1}, {1, 0}}, [&](size_t) { return std::exp2(++n); });
  const Numbers zero{4, 8, 64}, one{2, 16, 32};
  for (size_t b = 0; b < 3; ++b)
    expect("blocks with one turn each, of 4, 8, 64 s and 2, 16, 32 s; block " + shown(b) + " got " +
               shown(once[0][b]) + " and " + shown(once[1][b]),
           close(once[0][b], zero[b]) && close(once[1][b], one[b]), "values[contender][block]");
}

TEST_CASE("10.6 the two turns of a block give one value, their geometric mean") {
  int n = 0;
  const Numbers given{2, 5, 7, 8, 1, 3, 12, 9};
  const auto values =
      take_turns({{0, 1, 1, 0}, {1, 0, 0, 1}}, [&](size_t) { return given[static_cast<size_t>(n++)]; });
  const Numbers want{4, std::sqrt(35.0), 6, 3};
  const Numbers got{values[0][0], values[1][0], values[0][1], values[1][1]};
  expect_close(
      "turns of 2 5 7 8 s in the order 0 1 1 0, and of 1 3 12 9 s in the order 1 0 0 1: a value per "
      "contender for the first block, then for the second",
      got, want, {4}, {.dtype = f64, .roundings = 100});
  // The machine becomes 10 % slower with every turn.
  double slower = 1;
  const auto drift = take_turns({{0, 1, 1, 0}, {1, 0, 0, 1}, {0, 1, 1, 0}}, [&](size_t i) {
    slower *= 1.1;
    return slower * (i == 0 ? 3 : 2);
  });
  for (size_t b = 0; b < 3; ++b)
    expect("3 s against 2 s on a machine that becomes 10 % slower with every turn: a ratio of 1.5 in block " +
               shown(b) + "; got " + shown(drift[0][b] / drift[1][b]),
           close(drift[0][b] / drift[1][b], 1.5),
           "a constant factor per turn cancels in the geometric means of A B B A, and in no other mean");
}
