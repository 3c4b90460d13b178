#include <support/check.hpp>
#include <tinytorch/benchmarking/percentile_bound.hpp>

using namespace course;
using namespace statistics;

namespace {

// P(fewer than t of n samples are above), if each is above with probability p. The sum of the terms is
// precise enough for these n.
double risk_of(int64_t t, int64_t n, double p) {
  double term = std::pow(1 - p, static_cast<double>(n)), sum = 0;
  for (int64_t k = 0; k < t; ++k) {
    sum += term;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1) * p / (1 - p);
  }
  return sum;
}

// The numbers 1 .. n in random order. The t-th highest is n + 1 - t.
Numbers one_to(int64_t n) {
  Numbers x;
  for (int64_t i = 1; i <= n; ++i) x.push_back(static_cast<double>(i));
  std::shuffle(x.begin(), x.end(), random_source());
  return x;
}
std::string case_of(double percent, int64_t n, double confidence) {
  return "p" + shown(percent) + " of " + shown(n) + " samples at " + shown(100 * confidence) + " %";
}

}  // namespace

TEST_CASE("10.2 the number of samples that certifies a percentile") {
  expect_equal("samples_to_certify(50)", samples_to_certify(50), int64_t{11});
  expect_equal("samples_to_certify(90)", samples_to_certify(90), int64_t{64});
  expect_equal("samples_to_certify(95)", samples_to_certify(95), int64_t{130});
  expect_equal("samples_to_certify(99)", samples_to_certify(99), int64_t{662});
  expect_equal("samples_to_certify(99.9)", samples_to_certify(99.9), int64_t{6636});
  for (const double percent : {20.0, 50.0, 75.0, 90.0, 97.0}) {
    for (const double confidence : {0.5, 0.9, 0.95, 0.99, 0.999}) {
      int64_t want = 2;
      while (risk_of(2, want, 1 - percent / 100) > 1 - confidence) ++want;
      expect_equal("samples_to_certify(" + shown(percent) + ", " + shown(confidence) + ")",
                   samples_to_certify(percent, confidence), want);
    }
  }
}

TEST_CASE("10.2 the rank of the bound is the largest whose risk is small enough") {
  for (const double percent : {50.0, 90.0, 99.0}) {
    for (const double confidence : {0.9, 0.99}) {
      for (const int64_t n : {1, 2, 11, 63, 64, 65, 200, 662, 1000}) {
        const double p = 1 - percent / 100;
        std::optional<int64_t> want;
        for (int64_t t = 2; t <= n && risk_of(t, n, p) <= 1 - confidence; ++t) want = t;
        expect_equal("upper_bound_rank: " + case_of(percent, n, confidence),
                     upper_bound_rank(percent, n, confidence), want);
      }
    }
  }
}

TEST_CASE("10.2 the risk of 12 samples, by counting all outcomes") {
  // For any distribution each sample is below or above the true median, which gives 4096 equally likely
  // outcomes.
  constexpr int kSamples = 12;
  const auto t = upper_bound_rank(50, kSamples, 0.9);
  expect("12 samples give a bound of the median at 90 %", t.has_value());
  int too_low = 0;
  for (int outcome = 0; outcome < 1 << kSamples; ++outcome) {
    Numbers x;
    for (int i = 0; i < kSamples; ++i)
      x.push_back((outcome >> i & 1) ? 6.0 + i : 4.0 - 0.1 * i);  // the median is 5
    too_low += percentile_upper_bound(x, 50, 0.9).value() < 5;
  }
  expect("the bound is too low in " + shown(too_low) + " of 4096 outcomes; at 90 % at most 409 are allowed",
         too_low <= 409);
  expect("the bound is too low in 299 of 4096 outcomes, which have 0 to 3 samples above the median; got " +
             shown(too_low),
         too_low == 299,
         "a lower bound would be too low in 794 outcomes; the bound must be the lowest that is allowed");
}

TEST_CASE("10.2 the bound is a sample, whatever the order of the samples") {
  for (const auto& [percent, n] : std::vector<std::pair<double, int64_t>>{
           {50, 11}, {50, 100}, {90, 64}, {90, 300}, {99, 662}, {99, 2000}}) {
    int64_t t = 2;
    while (risk_of(t + 1, n, 1 - percent / 100) <= 0.01) ++t;
    const Numbers x = one_to(n), before = x;
    const auto bound = percentile_upper_bound(x, percent);
    expect(case_of(percent, n, 0.99) + ": the sample no. " + shown(t) + " from above, which is " +
               shown(n + 1 - t) + "; got " + shown(bound),
           bound == static_cast<double>(n + 1 - t));
    expect("the samples keep their order", x == before, "sort a copy");
    expect(case_of(percent, n, 0.99) + ": the bound is above the percentile of the samples",
           *bound > percentile(x, percent));
  }
}

TEST_CASE("10.2 too few samples give no bound") {
  for (const double percent : {50.0, 90.0, 99.0}) {
    int64_t enough = 2;
    while (risk_of(2, enough, 1 - percent / 100) > 0.01) ++enough;
    const auto none = percentile_upper_bound(one_to(enough - 1), percent);
    expect(shown(enough - 1) + " samples cannot certify p" + shown(percent) + "; got " + shown(none), !none,
           "return nothing: the true percentile may be above all samples");
    const auto bound = percentile_upper_bound(one_to(enough), percent);
    expect_equal(shown(enough) + " samples certify p" + shown(percent) + " by the second largest sample",
                 bound, std::optional<double>(static_cast<double>(enough - 1)));
  }
  expect_equal("one sample certifies nothing", percentile_upper_bound(Numbers{3}, 10, 0.01),
               std::optional<double>{});
}

TEST_CASE("10.2 more samples give a bound nearer to the percentile") {
  double last = HUGE_VAL;
  for (const int64_t n : {64, 200, 1000, 10000, 50000}) {
    const double share = *percentile_upper_bound(one_to(n), 90) / static_cast<double>(n);
    expect(
        "p90 is at 90 % of the samples; its bound with " + shown(n) + " samples is at " + shown(100 * share) +
            " %, with fewer samples it was at " + shown(100 * std::min(last, 1.0)) + " %",
        share > 0.9 && share < last, "the rank depends on n: a fixed rank of 2 would stay near the maximum");
    last = share;
  }
  expect("with 50000 samples the bound is at 90.4 % or less; got " + shown(100 * last) + " %", last < 0.904);
}

TEST_CASE("10.2 the bound holds as often as its confidence says") {
  // Calls take 1 ms; one in twelve is disturbed and takes up to ten times as long.
  std::mt19937_64 random(10);
  std::uniform_real_distribution<double> unit(0, 1);
  const auto call = [&] { return unit(random) < 1 / 12.0 ? 1 + 9 * unit(random) : 1 + 0.1 * unit(random); };
  const double truth = 10 - 9 * 0.6;  // p95: the upper 0.6 of the twelfth are a twentieth of all calls
  int held = 0, plain = 0;
  for (int run = 0; run < 1000; ++run) {
    Numbers x(130);
    for (double& s : x) s = call();
    held += percentile_upper_bound(x, 95).value() >= truth;
    plain += percentile(x, 95) >= truth;
  }
  expect("in 1000 runs of 130 calls, the bound at 99 % is not below the true p95 in about 990; got " +
             shown(held),
         held >= 980, "the percentile of the samples themselves is not below it in " + shown(plain));
}

TEST_CASE("10.2 invalid arguments are refused") {
  expect_throws("TT-STAT-03", "samples_to_certify(100)", [] { samples_to_certify(100); });
  expect_throws("TT-STAT-03", "samples_to_certify(90, 1): a confidence of 1 is impossible",
                [] { samples_to_certify(90, 1); });
  expect_throws("TT-STAT-03", "upper_bound_rank(100, 10)", [] { upper_bound_rank(100, 10); });
  expect_throws("TT-STAT-01", "percentile_upper_bound of no samples",
                [] { percentile_upper_bound(Numbers{}, 50); });
}
