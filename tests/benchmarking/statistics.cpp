// Three oracles: closed forms worked by hand, SciPy's values (tests/golden/make_statistics.py), and
// simulation for what a confidence interval promises: that it holds the truth as often as it says.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <tinytorch/benchmarking/statistics.hpp>

namespace st = tinytorch::statistics;
using tinytorch::Error;
using tinytorch::Generator;

namespace {

const nlohmann::json& golden() {
  static const nlohmann::json document = [] {
    const auto path = std::filesystem::path(TINYTORCH_SOURCE_DIR) / "tests/golden/statistics.json";
    std::ifstream file(path);
    REQUIRE_MESSAGE(file, "cannot open ", path.string());
    return nlohmann::json::parse(file);
  }();
  return document;
}

std::string code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return "no error";
}

doctest::Approx near(double x) { return doctest::Approx(x).epsilon(1e-12); }

// P(Binomial(n, p) >= k), summed directly.
double binomial_at_least(int n, double p, int k) {
  double total = 0;
  for (int i = k; i <= n; ++i)
    total += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0)) *
             std::pow(p, i) * std::pow(1 - p, n - i);
  return total;
}

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

TEST_CASE("nearest-rank percentile: rounding never moves an exact rank") {
  std::vector<double> x(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(x.size() - i);  // 1000 .. 1
  CHECK(st::percentile(x, 99.9) == 999);
  CHECK(st::percentile(x, 55) == 550);
  CHECK(st::percentile(x, 55.05) == 551);
  for (int p = 1; p <= 100; ++p) CHECK(st::percentile(x, p) == 10 * p);
}

TEST_CASE("descriptive statistics agree with NumPy and SciPy") {
  REQUIRE(golden().at("sets").size() >= 9);
  for (const auto& set : golden().at("sets")) {
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

TEST_CASE("geometric mean: a ratio and its inverse cancel; the order and the input stay as they were") {
  const std::vector<double> x{8, 2, 0.5, 0.125};
  const std::vector<double> before = x;
  CHECK(st::geometric_mean(x) == near(1.0));
  CHECK(st::geometric_mean(std::vector<double>{4, 9}) == near(6.0));
  CHECK(st::median(x) == near(1.25));
  CHECK(x == before);
}

TEST_CASE("outliers are labelled in place and none is dropped") {
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

TEST_CASE("bootstrap of the median against its exact distribution") {
  // For odd n and distinct samples: P(median* <= x_(k)) = P(Binomial(n, k/n) >= (n+1)/2).
  const int n = 15;
  std::vector<double> x;
  for (int i = 0; i < n; ++i) x.push_back((i * 7) % n);  // 0..14 shuffled; x_(k) = k - 1
  for (const double confidence : {0.5, 0.8, 0.95}) {
    int low = 0, high = 0;
    const double tail = (1 - confidence) / 2;
    for (int k = 1; k <= n; ++k) {
      const double cdf = binomial_at_least(n, static_cast<double>(k) / n, (n + 1) / 2);
      if (cdf < tail) low = k;
      if (cdf < 1 - tail) high = k;
    }
    const auto interval = st::bootstrap_median(x, {.draws = 40000, .confidence = confidence, .seed = 5});
    CAPTURE(confidence);
    CHECK(interval.estimate == 7);
    CHECK(interval.low == low);
    CHECK(interval.high == high);
  }
}

TEST_CASE("bootstrap intervals agree with SciPy within Monte Carlo error") {
  const auto& cases = golden().at("bootstrap");
  const auto a = cases.at("a").get<std::vector<double>>(), b = cases.at("b").get<std::vector<double>>();
  const auto check = [&](const char* name, st::Interval got) {
    const double low = cases.at(name)[0], high = cases.at(name)[1];
    CAPTURE(name);
    CHECK(std::abs(got.low - low) < 0.03 * (high - low));
    CHECK(std::abs(got.high - high) < 0.03 * (high - low));
    CHECK(got.low < got.estimate);
    CHECK(got.estimate < got.high);
  };
  const st::BootstrapOptions options{.draws = 50000, .confidence = 0.95, .seed = 11};
  check("mean", st::bootstrap_mean(a, options));
  check("median", st::bootstrap_median(a, options));
  check("ratio_of_medians", st::bootstrap_ratio_of_medians(a, b, options));
}

TEST_CASE("bootstrap is a function of its seed alone") {
  std::vector<double> x;
  Generator random(1);
  for (int i = 0; i < 60; ++i) x.push_back(random.uniform());
  const auto with = [&](uint64_t seed) { return st::bootstrap_mean(x, {.draws = 500, .seed = seed}); };
  CHECK(with(3).low == with(3).low);
  CHECK(with(3).high == with(3).high);
  CHECK((with(3).low != with(4).low || with(3).high != with(4).high));
}

TEST_CASE("bootstrap intervals cover the truth as often as they claim") {
  // 600 experiments of 41 exponential samples, true median ln 2. The standard error of a coverage near 95 %
  // is 0.9 %, of one near 50 % is 2 %; the percentile bootstrap of a median is itself good to about 2 %.
  // Bands of 4 and 8.
  const double truth = std::log(2.0);
  int inside_95 = 0, inside_50 = 0;
  const int experiments = 600;
  Generator random(2024);
  std::vector<double> x(41);
  for (int e = 0; e < experiments; ++e) {
    for (double& v : x) v = -std::log1p(-random.uniform());
    const auto seed = static_cast<uint64_t>(e);
    const auto wide = st::bootstrap_median(x, {.draws = 300, .confidence = 0.95, .seed = seed});
    const auto narrow = st::bootstrap_median(x, {.draws = 300, .confidence = 0.5, .seed = seed});
    inside_95 += wide.low <= truth && truth <= wide.high;
    inside_50 += narrow.low <= truth && truth <= narrow.high;
  }
  const double coverage_95 = static_cast<double>(inside_95) / experiments;
  const double coverage_50 = static_cast<double>(inside_50) / experiments;
  CAPTURE(coverage_95);
  CAPTURE(coverage_50);
  CHECK(std::abs(coverage_95 - 0.95) <= 0.04);
  CHECK(std::abs(coverage_50 - 0.50) <= 0.08);
}

TEST_CASE("intervals of a share agree with SciPy") {
  for (const auto& c : golden().at("proportions")) {
    CAPTURE(c.dump());
    const int64_t hits = c.at("hits"), trials = c.at("trials");
    const auto share = st::bootstrap_proportion(hits, trials);
    CHECK(share.estimate == near(static_cast<double>(hits) / static_cast<double>(trials)));
    CHECK(share.low == near(c.at("bootstrap")[0]));
    CHECK(share.high == near(c.at("bootstrap")[1]));
    const auto wilson = st::wilson_interval(hits, trials);
    CHECK(wilson.low == doctest::Approx(c.at("wilson")[0].get<double>()).epsilon(1e-9));
    CHECK(wilson.high == doctest::Approx(c.at("wilson")[1].get<double>()).epsilon(1e-9));
  }
  CHECK(st::bootstrap_proportion(7, 7).low == 1);
  CHECK(st::bootstrap_proportion(0, 7).high == 0);
  CHECK(st::wilson_interval(7, 7).low < 0.7);
  CHECK(st::wilson_interval(7, 7).high == near(1.0));
}

TEST_CASE("samples needed before a percentile can be certified at 99 %") {
  CHECK(st::samples_to_certify(50) == 11);
  CHECK(st::samples_to_certify(90) == 64);
  CHECK(st::samples_to_certify(95) == 130);
  CHECK(st::samples_to_certify(99) == 662);
}

TEST_CASE("ranks: overlapping intervals share, the lower bound orders, the next rank counts everyone above") {
  const auto ranks = [](std::vector<st::Interval> v) {
    std::vector<std::pair<size_t, int64_t>> out;
    for (const auto& r : st::rank_with_ties(v)) out.emplace_back(r.index, r.rank);
    return out;
  };
  using Pairs = std::vector<std::pair<size_t, int64_t>>;
  CHECK(ranks({{100, 99, 101}, {200, 190, 210}, {195, 185, 205}}) == Pairs{{1, 1}, {2, 1}, {0, 3}});
  CHECK(ranks({{1, 1, 1}, {2, 2, 2}, {3, 3, 3}}) == Pairs{{2, 1}, {1, 2}, {0, 3}});
  CHECK(ranks({{5, 4, 6}, {7, 6, 8}}) == Pairs{{1, 1}, {0, 1}});  // touching is overlapping
  CHECK(ranks({{5, 4, 6}, {5, 4, 6}}) == Pairs{{0, 1}, {1, 1}});  // equal: the order given
  CHECK(ranks({{10, 9, 11}, {8, 7, 9.5}, {6, 5, 7.5}}) == Pairs{{0, 1}, {1, 1}, {2, 3}});  // no chain of ties
  CHECK(ranks({{50, 1, 99}, {40, 39, 41}}) == Pairs{{1, 1}, {0, 1}});  // width earns no place
  CHECK(ranks({}).empty());
}

TEST_CASE("Pareto front: dominated points go, equal and incomparable ones stay") {
  using Rows = std::vector<std::vector<double>>;
  CHECK(st::pareto_front(Rows{{1, 4}, {2, 2}, {3, 3}, {4, 1}, {2, 2}, {1, 5}}) ==
        std::vector<size_t>{0, 1, 3, 4});
  CHECK(st::pareto_front(Rows{{1, 1, 9}, {2, 2, 1}, {2, 2, 2}}) == std::vector<size_t>{0, 1});
  CHECK(st::pareto_front(Rows{{3}, {1}, {2}}) == std::vector<size_t>{1});
  CHECK(st::pareto_front(Rows{}).empty());
}

TEST_CASE("unusable input is refused with a code") {
  const std::vector<double> none, bad{1, std::numeric_limits<double>::quiet_NaN()}, zero{1, 0}, good{1, 2};
  CHECK(code_of([&] { st::median(none); }) == "TT-STAT-01");
  CHECK(code_of([&] { st::percentile(bad, 50); }) == "TT-STAT-01");
  CHECK(code_of([&] { st::geometric_mean(zero); }) == "TT-STAT-02");
  CHECK(code_of([&] { st::bootstrap_ratio_of_medians(good, zero); }) == "TT-STAT-02");
  CHECK(code_of([&] { st::percentile(good, 101); }) == "TT-STAT-03");
  CHECK(code_of([&] { st::bootstrap_median(good, {.draws = 0}); }) == "TT-STAT-03");
  CHECK(code_of([&] { st::bootstrap_proportion(3, 2); }) == "TT-STAT-03");
  CHECK(code_of([&] { st::pareto_front(std::vector<std::vector<double>>{{1}, {1, 2}}); }) == "TT-STAT-04");
}
