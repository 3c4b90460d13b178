#include <support/check.hpp>
#include <tinytorch/benchmarking/steady_state.hpp>

using namespace course;
using namespace statistics;

namespace {

// Samples whose windows of `length` have the medians `values`.
Numbers plateaus(const Numbers& values, size_t length) {
  Numbers x;
  for (const double v : values) x.insert(x.end(), length, v);
  return x;
}
Numbers noisy(size_t n, double level, double per_sample, double noise, std::mt19937_64& random) {
  std::uniform_real_distribution<double> unit(-1, 1);
  Numbers x;
  for (size_t i = 0; i < n; ++i)
    x.push_back(level * (1 + per_sample * static_cast<double>(i) + noise * unit(random)));
  return x;
}
double descents_of(const Numbers& x) {
  double count = 0;
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = i + 1; j < x.size(); ++j) count += x[i] > x[j];
  return count;
}
// The two-sided p-value: twice the share of all orders of the samples that have at most, or at least, as many
// descending pairs.
double p_of_orders(const Numbers& x) {
  const double seen = descents_of(x);
  Numbers order = x;
  std::sort(order.begin(), order.end());
  double all = 0, low = 0, high = 0;
  do {
    const double d = descents_of(order);
    ++all, low += d <= seen, high += d >= seen;
  } while (std::next_permutation(order.begin(), order.end()));
  return std::min(1.0, 2 * std::min(low, high) / all);
}

}  // namespace

TEST_CASE("10.5 two medians agree within a share of the earlier one") {
  expect_equal("medians_agree(100, 101)", medians_agree(100, 101), true);
  expect_equal("medians_agree(100, 101.1)", medians_agree(100, 101.1), false);
  expect_equal("medians_agree(100, 99)", medians_agree(100, 99), true);
  expect_equal("medians_agree(100, 98.9)", medians_agree(100, 98.9), false);
  expect_equal("medians_agree(99, 100): 1 is more than 1 % of 99", medians_agree(99, 100), false);
  expect_equal("medians_agree(100, 110, 0.1)", medians_agree(100, 110, 0.1), true);
  expect_equal("medians_agree(1e-6, 2e-6)", medians_agree(1e-6, 2e-6), false);
  expect_equal("medians_agree(0, 0): 0 means that there is no earlier window", medians_agree(0, 0), false);
}

TEST_CASE("10.5 warm-up ends with the first window that agrees with the one before") {
  using Count = std::optional<size_t>;
  expect_equal("windows of 5 with medians 10, 5, 3, 3, 3", settled_after(plateaus({10, 5, 3, 3, 3}, 5)),
               Count(20));
  expect_equal("windows of 5 with medians 7, 7", settled_after(plateaus({7, 7}, 5)), Count(10));
  expect_equal("windows of 2 with medians 9, 8, 8, 4, 4", settled_after(plateaus({9, 8, 8, 4, 4}, 2), 2),
               Count(6));
  expect_equal("windows of 1 at 20 %: 4, 3, 2.5", settled_after(Numbers{4, 3, 2.5}, 1, 0.2), Count(3));
  expect_equal("windows of 5 with medians 9, 6, 4, 3, 2", settled_after(plateaus({9, 6, 4, 3, 2}, 5)),
               Count{});
  expect_equal("9 samples, which have only one whole window of 5", settled_after(Numbers(9, 3.0)), Count{});
  expect_equal("5 samples with a window of 5", settled_after(Numbers(5, 3.0)), Count{});
  Numbers disturbed = plateaus({8, 3, 3}, 5);
  disturbed[7] = disturbed[12] = disturbed[13] = 500;
  expect_equal("windows with medians 8, 3, 3 and three samples of 500", settled_after(disturbed), Count(15));
  // Overlapping windows would agree earlier.
  expect_equal("windows do not overlap: 4 4 4 4 9 | 9 9 9 9 9 | 9 ...",
               settled_after(Numbers{4, 4, 4, 4, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}), Count(15));
}

TEST_CASE("10.5 the count of descending pairs") {
  for (int round = 0; round < 40; ++round) {
    Numbers x;
    for (int i = 0; i < round; ++i) x.push_back(round % 2 ? uniform(0, 1) : std::floor(uniform(0, 5)));
    const double want = descents_of(x);
    Numbers sorted = x;
    const double got = detail::count_descents(sorted);
    expect("pairs i < j with x[i] > x[j] in " + shown(x) + ": " + shown(want) + ", got " + shown(got),
           got == want, "equal samples are not a descending pair");
    expect("afterwards the samples are sorted: " + shown(sorted),
           std::is_sorted(sorted.begin(), sorted.end()));
  }
  Numbers falling(2000);
  std::iota(falling.rbegin(), falling.rend(), 0.0);
  expect_equal("descending pairs of 2000 falling samples: every pair", detail::count_descents(falling),
               2000.0 * 1999 / 2);
}

TEST_CASE("10.5 a trend has a change of the median and a p-value") {
  const Trend up = remaining_trend(Numbers{10, 11, 12, 13, 14, 15, 16, 17, 18});
  expect("change of 10 .. 18: 17 / 11 - 1, got " + shown(up.change), std::abs(up.change - 6 / 11.0) < 1e-12,
         "the median of the last third divided by that of the first third, minus 1");
  const Trend two = remaining_trend(Numbers{2, 3});
  expect("change of {2, 3}: 0.5, got " + shown(two.change), std::abs(two.change - 0.5) < 1e-12,
         "a third is at least one sample");
  const Trend ten = remaining_trend(Numbers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  expect("change of 1 .. 10, whose thirds have 3: 9 / 2 - 1, got " + shown(ten.change),
         std::abs(ten.change - 3.5) < 1e-12);
  for (int round = 0; round < 12; ++round) {
    Numbers x;
    for (int i = 0; i < 6; ++i) x.push_back(uniform(1, 2) + 0.1 * round * i);
    const double want = p_of_orders(x), got = remaining_trend(x).p;
    expect("p of " + shown(x) + ", from all 720 orders: " + shown(want) + ", got " + shown(got),
           std::abs(got - want) < 1e-9, "the test is two-sided, because times can also fall");
  }
}

TEST_CASE("10.5 a trend is present if it is significant and larger than the tolerance") {
  std::mt19937_64 random(4);
  const auto trend = [&](double per_sample, double noise, size_t n) {
    return remaining_trend(noisy(n, 5, per_sample, noise, random));
  };
  expect_equal("trend of 40 samples that rise by 0.2 % each", trend(0.002, 0.01, 40).present, true);
  expect_equal("trend of 40 samples that fall by 0.2 % each", trend(-0.002, 0.01, 40).present, true);
  const Trend slight = trend(0.0001, 0.0005, 40);
  expect("40 samples that rise by 0.4 % in all: p is " + shown(slight.p) + ", and it does not matter",
         slight.p < 0.01 && !slight.present, "the median must change by more than options.tolerance");
  expect_equal("trend of the same samples with a tolerance of 0.1 %",
               remaining_trend(noisy(40, 5, 0.0001, 0.0005, random), {.tolerance = 0.001}).present, true);
  const Trend chance = remaining_trend(Numbers{9, 10, 10.5, 9.2, 11, 9.5});
  expect("samples 9, 10, 10.5, 9.2, 11, 9.5 change by " + shown(100 * chance.change) +
             " %, which is not significant",
         !chance.present, "p must be below options.significance");
  int alarms = 0;
  for (int i = 0; i < 400; ++i) alarms += trend(0, 0.2, 30).present;
  expect("noise without a trend: about 4 false alarms are expected in 400 series; got " + shown(alarms),
         alarms <= 12);
}

TEST_CASE("10.5 samples are steady if warm-up ended and no trend follows") {
  std::mt19937_64 random(6);
  Numbers series = plateaus({90, 40, 20, 10}, 5), tail = noisy(40, 10, 0, 0.005, random);
  series.insert(series.end(), tail.begin(), tail.end());
  const SteadyState good = steady_state(series);
  expect_equal("samples of the warm-up in 90 .. | 40 .. | 20 .. | 10 .. | 40 samples about 10", good.warm_up,
               std::optional<size_t>(25));
  expect("the samples after the warm-up are steady; the trend is " + shown(100 * good.trend.change) +
             " % with p = " + shown(good.trend.p),
         good.steady, "do not include the warm-up in the series that is tested for a trend");
  const SteadyState drift = steady_state(noisy(60, 10, 0.001, 0.001, random));
  expect("60 samples, each 0.1 % slower: windows of 5 agree after " + shown(drift.warm_up),
         drift.warm_up == std::optional<size_t>(10));
  expect("but the samples are not steady: the median changed by " + shown(100 * drift.trend.change) + " %",
         drift.trend.present && !drift.steady, "test both: the end of the warm-up, and the trend after it");
  const SteadyState never = steady_state(plateaus({9, 7, 5, 4, 3, 2, 1}, 5));
  expect("windows that never agree: no warm-up, not steady", !never.warm_up && !never.steady);
  const SteadyState soon = steady_state(Numbers(15, 2.0)), enough = steady_state(Numbers(16, 2.0));
  expect("15 samples, of which 10 are warm-up: 5 samples are too few to be called steady",
         soon.warm_up && !soon.steady);
  expect("16 samples, of which 10 are warm-up: 6 samples are enough", enough.steady);
  const SteadyState wide = steady_state(plateaus({9, 3, 3, 3, 3}, 4), 4);
  expect_equal("samples of the warm-up with windows of 4", wide.warm_up, std::optional<size_t>(12));
  const TrendOptions generous{.tolerance = 0.3};
  expect_equal("samples of the warm-up with the tolerance of the options",
               steady_state(plateaus({10, 8, 8, 8}, 5), 5, generous).warm_up, std::optional<size_t>(10));
}

TEST_CASE("10.5 invalid arguments are refused") {
  expect_throws("TT-STAT-01", "settled_after of no samples", [] { settled_after(Numbers{}); });
  expect_throws("TT-STAT-03", "settled_after with a window of 0", [] { settled_after(Numbers{1, 2}, 0); });
  expect_throws("TT-STAT-02", "remaining_trend of {1, 0, 2}", [] { remaining_trend(Numbers{1, 0, 2}); });
  expect_throws("TT-STAT-02", "steady_state of {1, -1}", [] { steady_state(Numbers{1, -1}); });
}
