// Two references: closed forms computed by hand, and values of NumPy and SciPy
// (tests/golden/make_statistics.py).
#include <doctest/doctest.h>
#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <tinytorch/benchmarking/samples.hpp>

namespace st = tinytorch::statistics;

namespace {
doctest::Approx near(double x) { return doctest::Approx(x).epsilon(1e-12); }
}  // namespace

TEST_CASE("nearest-rank percentile: the textbook example") {
  // Five values; rank = ceil(p/100 * 5): 5 % -> 1, 30 % -> 2, 40 % -> 2, 50 % -> 3, 100 % -> 5.
  const std::vector<double> x{50, 15, 40, 20, 35};
  CHECK(st::percentile(x, 5) == 15);
  CHECK(st::percentile(x, 30) == 20);
  CHECK(st::percentile(x, 40) == 20);
  CHECK(st::percentile(x, 50) == 35);
  CHECK(st::percentile(x, 100) == 50);
  CHECK(st::percentile(x, 0) == 15);
}

TEST_CASE("nearest-rank percentile: rounding does not change an exact rank") {
  std::vector<double> x(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(x.size() - i);  // 1000 .. 1
  CHECK(st::percentile(x, 99.9) == 999);
  CHECK(st::percentile(x, 55) == 550);
  CHECK(st::percentile(x, 55.05) == 551);
  for (int p = 1; p <= 100; ++p) CHECK(st::percentile(x, p) == 10 * p);
}

TEST_CASE("descriptive statistics agree with NumPy and SciPy") {
  const auto golden = read_golden("statistics");
  REQUIRE(golden.at("sets").size() >= 9);
  for (const auto& set : golden.at("sets")) {
    const auto x = set.at("samples").get<std::vector<double>>();
    CAPTURE(x.size());
    for (const auto& pair : set.at("percentiles")) {
      CAPTURE(pair.dump());
      CHECK(st::percentile(x, pair[0]) == pair[1].get<double>());
    }
    for (const auto& pair : set.at("quantiles"))
      CHECK(st::quantile_linear(x, pair[0]) == near(pair[1].get<double>()));
    CHECK(st::median(x) == near(set.at("median")));
    CHECK(st::mean(x) == near(set.at("mean")));
    CHECK(st::geometric_mean(x) == near(set.at("geometric_mean")));
    CHECK(st::median_absolute_deviation(x) == near(set.at("median_absolute_deviation")));
    const st::Fences f = st::outlier_fences(x);
    const auto want = set.at("fences").get<std::vector<double>>();
    CHECK(f.low_severe == near(want[0]));
    CHECK(f.low_mild == near(want[1]));
    CHECK(f.high_mild == near(want[2]));
    CHECK(f.high_severe == near(want[3]));
  }
}

TEST_CASE(
    "geometric mean: a ratio and its inverse cancel; the order does not matter, the input is unchanged") {
  const std::vector<double> x{8, 2, 0.5, 0.125};
  const std::vector<double> before = x;
  CHECK(st::geometric_mean(x) == near(1.0));
  CHECK(st::geometric_mean(std::vector<double>{4, 9}) == near(6.0));
  CHECK(st::median(x) == near(1.25));
  CHECK(x == before);
}

TEST_CASE("outliers are labelled in order, and none is removed") {
  // Quartiles of 1..9 are 3 and 7, so the fences stand at -9, -3, 13, 19.
  std::vector<double> x{1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (const auto label : st::label_outliers(x)) CHECK(label == st::Outlier::kNone);
  const st::Fences f = st::outlier_fences(x);
  CHECK(f.label(13) == st::Outlier::kNone);
  CHECK(f.label(13.1) == st::Outlier::kHighMild);
  CHECK(f.label(19.1) == st::Outlier::kHighSevere);
  CHECK(f.label(-3.1) == st::Outlier::kLowMild);
  CHECK(f.label(-9.1) == st::Outlier::kLowSevere);
  x.insert(x.begin() + 2, 1000);
  const auto labels = st::label_outliers(x);
  REQUIRE(labels.size() == 10);
  CHECK(labels[2] == st::Outlier::kHighSevere);
  CHECK(std::count(labels.begin(), labels.end(), st::Outlier::kNone) == 9);
}

TEST_CASE("invalid samples throw with their index") {
  const std::vector<double> none, bad{1, std::numeric_limits<double>::quiet_NaN()}, zero{1, 0}, good{1, 2};
  const auto refused = [](const std::string& start, const std::function<void()>& f) {
    CHECK(message_of(f).substr(0, start.size()) == start);
  };
  refused("TT-STAT-01: median: no samples", [&] { st::median(none); });
  refused("TT-STAT-01: percentile: sample 1 is not finite", [&] { st::percentile(bad, 50); });
  refused("TT-STAT-02: geometric_mean: sample 1 is 0.000000, must be > 0", [&] { st::geometric_mean(zero); });
  refused("TT-STAT-03: percentile: percent is 101", [&] { st::percentile(good, 101); });
  refused("TT-STAT-05: paired: 2 samples cannot be paired with 1",
          [&] { st::require_pairs("paired", good, std::vector<double>{1}, tinytorch::Loc::current()); });
}
