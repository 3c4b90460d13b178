// Three references: exact distributions, SciPy's values (tests/golden/make_statistics.py), and simulations of
// the coverage of confidence intervals.
#include <doctest/doctest.h>
#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/noise.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>

namespace st = tinytorch::statistics;
using tinytorch::Generator;

namespace {

struct Split {
  size_t processes = 0;
  double between = 0, within = 0;  // standard deviations
};

// The fraction of runs whose hierarchical interval of the median contains the true value, 0.
double hierarchical_coverage(const Split& split, int runs) {
  Generator random(77);
  int held = 0;
  for (int run = 0; run < runs; ++run) {
    std::vector<std::vector<double>> processes(split.processes, std::vector<double>(15));
    for (auto& samples : processes) {
      const double center = split.between * normal_number(random);
      for (double& x : samples) x = center + split.within * normal_number(random);
    }
    const auto interval =
        st::bootstrap_hierarchical_median(processes, {.draws = 150, .seed = static_cast<uint64_t>(run)});
    held += interval.low <= 0 && 0 <= interval.high;
  }
  return static_cast<double>(held) / runs;
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

TEST_CASE("the bootstrap of the median matches its exact distribution") {
  // If n is odd and samples are distinct, P(median* <= x_(k)) = P(Binomial(n, k/n) >= (n+1)/2).
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
  const auto cases = read_golden("statistics").at("bootstrap");
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

TEST_CASE("the bootstrap depends on its seed alone") {
  std::vector<double> x;
  Generator random(1);
  for (int i = 0; i < 60; ++i) x.push_back(random.uniform());
  const auto with = [&](uint64_t seed) { return st::bootstrap_mean(x, {.draws = 500, .seed = seed}); };
  CHECK(with(3).low == with(3).low);
  CHECK(with(3).high == with(3).high);
  CHECK((with(3).low != with(4).low || with(3).high != with(4).high));
}

TEST_CASE("bootstrap intervals have their stated coverage") {
  // 600 experiments of 41 exponential samples, true median ln 2. The standard error of a coverage near 95 %
  // is 0.9 %, of one near 50 % 2 %. The percentile bootstrap of a median is itself accurate to about 2 %, so
  // the tolerances are 4 and 8 %.
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

TEST_CASE("intervals of a proportion agree with SciPy") {
  const auto golden = read_golden("statistics");
  for (const auto& c : golden.at("proportions")) {
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
  // The largest counts that a submission may claim take no longer than small ones. The interval is then
  // normal to all relevant digits.
  const auto many = st::bootstrap_proportion(750'000'000, 1'000'000'000);
  const double half = 1.959963984540054 * std::sqrt(0.75 * 0.25 / 1e9);
  CHECK(many.low == doctest::Approx(0.75 - half).epsilon(1e-8));
  CHECK(many.high == doctest::Approx(0.75 + half).epsilon(1e-8));
  CHECK(st::wilson_interval(7, 7).low < 0.7);
  CHECK(st::wilson_interval(7, 7).high == near(1.0));
}

TEST_CASE("the hierarchical bootstrap of one process is the plain one; equal processes add nothing") {
  const std::vector<double> x{1, 2, 4, 8, 16, 32, 64};
  const st::BootstrapOptions options{.draws = 20000, .seed = 3};
  const auto plain = st::bootstrap_median(x, options);
  const auto nested = st::bootstrap_hierarchical_median(std::vector<std::vector<double>>{x}, options);
  CHECK(nested.estimate == 8);
  CHECK(nested.low == plain.low);
  CHECK(nested.high == plain.high);
}

TEST_CASE("hierarchical bootstrap: with constant processes only the spread between them remains") {
  // Processes at 0 and 1: the mean of two drawn processes is 0, 1/2, 1 with probability 1/4, 1/2, 1/4, for
  // any number of samples.
  const std::vector<std::vector<double>> two{std::vector<double>(50, 0.0), std::vector<double>(50, 1.0)};
  const auto average = [](std::span<double> x) { return st::mean(x); };
  const auto wide = st::bootstrap_hierarchical(two, average, {.draws = 4000, .confidence = 0.6, .seed = 1});
  CHECK(wide.estimate == 0.5);
  CHECK(wide.low == 0);
  CHECK(wide.high == 1);
  const auto narrow = st::bootstrap_hierarchical(two, average, {.draws = 4000, .confidence = 0.4, .seed = 1});
  CHECK(narrow.low == 0.5);
  CHECK(narrow.high == 0.5);
  // Treated as 100 independent samples, the same data would give the mean to 10 %.
  std::vector<double> pooled(two[0]);
  pooled.insert(pooled.end(), two[1].begin(), two[1].end());
  CHECK(st::bootstrap_mean(pooled, {.draws = 2000, .seed = 1}).low > 0.35);
}

TEST_CASE("hierarchical bootstrap: the coverage is as documented") {
  // The standard error of a fraction is 1 to 2 %.
  const double few = hierarchical_coverage({5, 0.02, 0.005}, 500);
  const double many = hierarchical_coverage({20, 0.02, 0.005}, 250);
  const double alike = hierarchical_coverage({5, 0.0, 0.05}, 500);
  CAPTURE(few);
  CAPTURE(many);
  CAPTURE(alike);
  CHECK(std::abs(few - 0.905) <= 0.04);
  CHECK(std::abs(many - 0.947) <= 0.04);
  CHECK(std::abs(alike - 0.98) <= 0.02);
}

TEST_CASE("paired difference: the difficulty of samples for both cancels") {
  // 200 test samples: both networks are right on 100 of them and wrong on 90; on 10 only the first is right.
  std::vector<double> a(200, 0.0), b(200, 0.0);
  std::fill_n(a.begin(), 110, 1.0);
  std::fill_n(b.begin(), 100, 1.0);
  const st::BootstrapOptions options{.draws = 4000, .seed = 2};
  const auto difference = st::bootstrap_paired_difference(a, b, 1, options);
  CHECK(difference.estimate == near(0.05));
  // The resampled count of disagreements is Binomial(200, 0.05): its 2.5 % and 97.5 % points are 4 and 16.
  CHECK(difference.low == near(4.0 / 200));
  CHECK(difference.high == near(16.0 / 200));
  // One-sided: its 5 % point is 5. Unpaired, two proportions of 0.5 would have an uncertainty of 0.1.
  CHECK(st::paired_lower_bound(a, b, 1, options) == near(5.0 / 200));
}

TEST_CASE("paired lower bound: a network that keeps exactly the required fraction passes in 5 % of runs") {
  // The answers are right with probability 0.99 * 0.9 and 0.9, mostly on the same samples, so the true value
  // of mean(a) - 0.99 mean(b) is 0.
  Generator random(5);
  int above = 0;
  const int runs = 500;
  std::vector<double> a(200), b(200);
  for (int run = 0; run < runs; ++run) {
    for (size_t i = 0; i < a.size(); ++i) {
      const double hard = random.uniform(), loses = random.uniform();
      b[i] = hard < 0.9;
      a[i] = hard < 0.9 ? loses >= 0.03 : loses < 0.9 * 0.02 / 0.1;  // 0.873 + 0.018 = 0.891
    }
    above += st::paired_lower_bound(a, b, 0.99, {.draws = 150, .seed = static_cast<uint64_t>(run)}) > 0;
  }
  const double share = static_cast<double>(above) / runs;
  CAPTURE(share);
  CHECK(std::abs(share - 0.05) <= 0.03);  // 3 standard errors
}

TEST_CASE("invalid input throws with a code") {
  const std::vector<double> none, zero{1, 0}, good{1, 2};
  const auto code = [](const std::function<void()>& f) { return message_of(f).substr(0, 10); };
  CHECK(code([&] { st::bootstrap_median(none); }) == "TT-STAT-01");
  CHECK(code([&] { st::bootstrap_ratio_of_medians(good, zero); }) == "TT-STAT-02");
  CHECK(code([&] { st::bootstrap_median(good, {.draws = 0}); }) == "TT-STAT-03");
  CHECK(code([&] { st::bootstrap_proportion(3, 2); }) == "TT-STAT-03");
  CHECK(code([&] { st::bootstrap_hierarchical_median({}); }) == "TT-STAT-01");
  CHECK(code([&] {
          st::bootstrap_hierarchical_median(std::vector<std::vector<double>>{good, none});
        }) == "TT-STAT-01");
  CHECK(code([&] { st::bootstrap_paired_difference(good, none); }) == "TT-STAT-01");
  CHECK(code([&] { st::bootstrap_paired_difference(good, std::vector<double>{1}); }) == "TT-STAT-05");
  CHECK(code([&] { st::paired_lower_bound(good, good, 1, {.confidence = 0.4}); }) == "TT-STAT-03");
}
