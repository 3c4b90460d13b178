// Trends computed by hand, SciPy's values (tests/golden/make_statistics.py), and simulations of false alarms
// and of power.
#include <doctest/doctest.h>
#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/noise.hpp>
#include <tinytorch/benchmarking/steady_state.hpp>

namespace st = tinytorch::statistics;
using st::Alternative;
using tinytorch::Generator;
using Values = std::vector<double>;

namespace {

// The fraction of `runs` series of n timings in which a trend is reported; `shape` is a factor by the
// position in [0, 1].
double alarms(size_t n, double noise, int runs, const std::function<double(double)>& shape) {
  Generator random(31);
  int count = 0;
  Values series(n);
  for (int run = 0; run < runs; ++run) {
    for (size_t i = 0; i < n; ++i)
      series[i] =
          shape(static_cast<double>(i) / static_cast<double>(n)) * std::exp(noise * normal_number(random));
    count += st::remaining_trend(series).present;
  }
  return static_cast<double>(count) / runs;
}

}  // namespace

TEST_CASE("the warm-up rule matches values computed by hand") {
  CHECK(st::medians_agree(100, 101));
  CHECK(st::medians_agree(100, 99));
  CHECK_FALSE(st::medians_agree(100, 101.1));
  CHECK_FALSE(st::medians_agree(100, 98.9));
  CHECK_FALSE(st::medians_agree(0, 0));  // no previous window
  const Values x{9, 9, 7, 7, 5, 5, 5, 5, 5, 5};
  CHECK(st::settled_after(x, 2) == 8);
  CHECK(st::settled_after(x, 1) == 2);
  CHECK_FALSE(st::settled_after(st::Samples(x).first(7), 2).has_value());
  CHECK(st::settled_after(x, 5, 0.3) == 10);
  CHECK_FALSE(st::settled_after(x, 5, 0.2).has_value());  // medians 7 and 5
}

TEST_CASE("Mann-Kendall of four samples matches values computed by hand") {
  // There are 24 orders; the numbers of orders with 0 .. 6 rising pairs are 1 3 5 6 5 3 1.
  CHECK(st::mann_kendall(Values{1, 2, 3, 4}).statistic == 6);
  CHECK(st::mann_kendall(Values{1, 2, 3, 4}, Alternative::kGreater).p == doctest::Approx(1 / 24.0));
  CHECK(st::mann_kendall(Values{1, 2, 3, 4}).p == doctest::Approx(2 / 24.0));
  CHECK(st::mann_kendall(Values{1, 2, 4, 3}).statistic == 4);
  CHECK(st::mann_kendall(Values{1, 2, 4, 3}, Alternative::kGreater).p == doctest::Approx(4 / 24.0));
  CHECK(st::mann_kendall(Values{4, 3, 1, 2}, Alternative::kLess).p == doctest::Approx(4 / 24.0));
  CHECK(st::mann_kendall(Values{2, 4, 1, 3}).p == 1);
  CHECK(st::mann_kendall(Values{5, 5, 5}).p == 1);
  CHECK(st::mann_kendall(Values{5, 5, 5}).statistic == 0);
  CHECK(st::mann_kendall(Values{7}).p == 1);
}

TEST_CASE("Mann-Kendall of equal samples matches values computed by hand") {
  // 9 rising pairs; variance (6 * 5 * 17 - 2 * 3 * 2 * 11) / 18 = 21, and S counts from half a step of 2
  // lower.
  const auto rising = st::mann_kendall(Values{1, 1, 1, 2, 2, 2}, Alternative::kGreater);
  CHECK(rising.statistic == 9);
  CHECK(rising.p == doctest::Approx(st::normal_tail(8 / std::sqrt(21.0))).epsilon(1e-13));
}

TEST_CASE("Mann-Kendall agrees with SciPy's Kendall test against time") {
  const auto cases = read_golden("statistics").at("tests").at("mann_kendall");
  REQUIRE(cases.size() == 12);
  for (const auto& c : cases) {
    const std::string side = c.at("alternative");
    const auto got =
        st::mann_kendall(c.at("series").get<Values>(), side == "less"      ? Alternative::kLess
                                                       : side == "greater" ? Alternative::kGreater
                                                                           : Alternative::kTwoSided);
    CAPTURE(c.dump());
    CHECK(got.statistic == c.at("statistic").get<double>());
    CHECK(got.p == doctest::Approx(c.at("p").get<double>()).epsilon(1e-11));
  }
}

TEST_CASE("Mann-Kendall with ties matches all orders of 9 samples, and S a count of all pairs") {
  const Values seen{3, 1, 2, 2, 3, 4, 3, 5, 4};
  const auto count = [](const Values& x) {
    double s = 0;
    for (size_t j = 0; j < x.size(); ++j)
      for (size_t i = 0; i < j; ++i) s += (x[j] > x[i]) - (x[j] < x[i]);
    return s;
  };
  const auto got = st::mann_kendall(seen, Alternative::kGreater);
  CHECK(got.statistic == count(seen));
  Values order = seen;
  std::sort(order.begin(), order.end());
  int orders = 0, as_high = 0;
  do {
    ++orders;
    as_high += count(order) >= got.statistic;
  } while (std::next_permutation(order.begin(), order.end()));
  REQUIRE(orders == 362880 / (2 * 6 * 2));  // the 2s, the 3s and the 4s
  CHECK(std::abs(got.p - static_cast<double>(as_high) / orders) < 0.005);
  Generator random(2);
  for (const size_t n : {2u, 31u, 64u, 200u}) {
    Values x(n);
    for (double& v : x) v = static_cast<double>(random.below(20));
    CHECK(st::mann_kendall(x).statistic == count(x));
  }
}

TEST_CASE("independent noise is reported as a trend in at most 1 % of series") {
  // 2000 series: three standard errors of 1 % are 0.67 %.
  const auto flat = [](double) { return 1.0; };
  for (const size_t n : {20u, 60u, 200u}) {
    CAPTURE(n);
    CHECK(alarms(n, 0.05, 2000, flat) <= 0.0167);
  }
  CHECK(alarms(60, 0.003, 2000, flat) == 0);  // a change of the median by less than 1 % is not a trend
}

TEST_CASE("drift and steps are detected as often as documented") {
  const double noise = 0.05;
  const double drift = alarms(60, noise, 500, [&](double at) { return std::exp(2 * noise * at); });
  const double step =
      alarms(60, noise, 500, [&](double at) { return std::exp(at < 0.5 ? 0.0 : 1.5 * noise); });
  const double quicker = alarms(60, noise, 500, [&](double at) { return std::exp(-2 * noise * at); });
  CHECK(drift >= 0.92);  // 95 % minus 3 standard errors
  CHECK(step >= 0.92);
  CHECK(quicker >= 0.92);
  // A change below the tolerance is not a trend, however significant.
  CHECK(alarms(200, 0.001, 200, [](double at) { return 1 + 0.009 * at; }) == 0);
  CHECK(alarms(200, 0.001, 200, [](double at) { return 1 + 0.03 * at; }) == 1);
}

TEST_CASE("steady_state needs a warm-up and no trend after it") {
  Values series;
  Generator random(40);
  for (int i = 0; i < 10; ++i) series.push_back(2.0 - 0.1 * i);
  for (int i = 0; i < 60; ++i) series.push_back(1 + 0.004 * normal_number(random));
  const auto steady = st::steady_state(series);
  REQUIRE(steady.warm_up.has_value());
  CHECK(*steady.warm_up == 20);
  CHECK(steady.steady);

  // Windows of 5 differ by less than 1 %, so the warm-up rule does not detect the drift of 9 % from end to
  // end.
  Values drifting;
  for (int i = 0; i < 60; ++i) drifting.push_back(1 + 0.0015 * i + 0.002 * normal_number(random));
  const auto drift = st::steady_state(drifting);
  CHECK(drift.warm_up == 10);
  CHECK(drift.trend.present);
  CHECK(drift.trend.change > 0.03);
  CHECK_FALSE(drift.steady);

  Values growing;
  for (int i = 0; i < 40; ++i) growing.push_back(std::pow(1.1, i));
  CHECK_FALSE(st::steady_state(growing).warm_up.has_value());
  CHECK_FALSE(st::steady_state(growing).steady);
  CHECK_FALSE(st::steady_state(Values(12, 1.0))
                  .steady);  // warm-up of 10 samples; the 2 others are too few for a trend
  CHECK(st::steady_state(Values(16, 1.0)).steady);
}

TEST_CASE("times that are not above 0 throw") {
  CHECK(message_of([] { st::remaining_trend(Values{1, 0, 2}); }).find("TT-STAT-02: remaining_trend") == 0);
  CHECK(message_of([] { st::steady_state({}); }).find("TT-STAT-01: steady_state") == 0);
  CHECK(message_of([] {
          st::settled_after(Values{1, 2}, 0);
        }).find("TT-STAT-03: settled_after: window") == 0);
}
