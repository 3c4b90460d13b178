// Null distributions computed by hand and by enumeration, SciPy's values (tests/golden/make_statistics.py),
// and simulations: without an effect, p is below 5 % in 5 % of runs.
#include <doctest/doctest.h>

#include <bit>
#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/noise.hpp>
#include <tinytorch/benchmarking/hypothesis.hpp>

namespace st = tinytorch::statistics;
using st::Alternative;
using tinytorch::Generator;
using Values = std::vector<double>;

namespace {

Alternative alternative_of(const std::string& name) {
  if (name == "less") return Alternative::kLess;
  return name == "greater" ? Alternative::kGreater : Alternative::kTwoSided;
}

bool agrees(double got, double want, double relative) { return std::abs(got - want) <= relative * want; }

Values lognormal_samples(size_t n, double shift, Generator& random) {
  Values x(n);
  for (double& v : x) v = std::exp(shift + 0.1 * normal_number(random));
  return x;
}

}  // namespace

TEST_CASE("Mann-Whitney of 3 against 3 samples matches values computed by hand") {
  // There are 20 orders of 3 + 3 distinct samples; the numbers of orders with U = 0 .. 9 are 1 1 2 3 3 3 3 2
  // 1 1.
  const auto null = st::mann_whitney_null(3, 3);
  const std::vector<int> want{1, 1, 2, 3, 3, 3, 3, 2, 1, 1};
  REQUIRE(null.size() == want.size());
  for (size_t u = 0; u < want.size(); ++u) CHECK(null[u] == doctest::Approx(want[u] / 20.0).epsilon(1e-14));
  const Values low{1, 2, 3}, high{4, 5, 6};
  CHECK(st::mann_whitney(low, high).statistic == 0);
  CHECK(st::mann_whitney(high, low).statistic == 9);
  CHECK(st::mann_whitney(low, high, Alternative::kLess).p == doctest::Approx(0.05));
  CHECK(st::mann_whitney(low, high, Alternative::kGreater).p == doctest::Approx(1));
  CHECK(st::mann_whitney(low, high).p == doctest::Approx(0.1));
}

TEST_CASE("Mann-Whitney: sets of different sizes have the same null distribution in both orders") {
  for (const auto& [n, m] : {std::pair<size_t, size_t>{1, 4}, {5, 2}, {6, 11}}) {
    const auto ab = st::mann_whitney_null(n, m), ba = st::mann_whitney_null(m, n);
    CHECK(ab == ba);
    CHECK(std::accumulate(ab.begin(), ab.end(), 0.0) == doctest::Approx(1).epsilon(1e-13));
    for (size_t u = 0; u <= n * m; ++u) CHECK(ab[u] == doctest::Approx(ab[n * m - u]).epsilon(1e-12));
  }
}

TEST_CASE("the null distribution of Mann-Whitney equals an enumeration of all orders") {
  for (const auto& [n, m] : {std::pair<size_t, size_t>{1, 6}, {4, 3}, {2, 7}, {5, 5}}) {
    Values counted(n * m + 1, 0);
    double orders = 0;
    for (uint32_t chosen = 0; chosen < 1u << (n + m);
         ++chosen) {  // bit i: the sample of rank i is one of the n
      if (static_cast<size_t>(std::popcount(chosen)) != n) continue;
      size_t u = 0, others = 0;
      for (size_t i = 0; i < n + m; ++i) {
        if (chosen >> i & 1) {
          u += others;
        } else {
          ++others;
        }
      }
      ++counted[u];
      ++orders;
    }
    const auto null = st::mann_whitney_null(n, m);
    REQUIRE(null.size() == counted.size());
    for (size_t u = 0; u < null.size(); ++u)
      CHECK(null[u] == doctest::Approx(counted[u] / orders).epsilon(1e-13));
  }
  CHECK(st::mann_whitney_null(4, 0) == Values{1});
  CHECK(st::mann_whitney_null(0, 0) == Values{1});
}

TEST_CASE("the null distribution of Mann-Whitney has the theoretical mean and variance") {
  for (const auto& [n, m] : {std::pair<size_t, size_t>{8, 8}, {5, 40}, {100, 100}}) {
    const auto null = st::mann_whitney_null(n, m);
    const auto pairs = static_cast<double>(n * m);
    double mean = 0, square = 0;
    for (size_t u = 0; u < null.size(); ++u) mean += null[u] * static_cast<double>(u);
    for (size_t u = 0; u < null.size(); ++u) square += null[u] * std::pow(static_cast<double>(u) - mean, 2);
    CHECK(mean == doctest::Approx(pairs / 2).epsilon(1e-11));
    CHECK(square == doctest::Approx(pairs * static_cast<double>(n + m + 1) / 12).epsilon(1e-9));
  }
}

TEST_CASE("signed ranks of three differences match values computed by hand") {
  // 8 choices of signs for the ranks 1 2 3: sums 0 1 2 3 3 4 5 6.
  const Values d{0.5, -1, 2};  // W+ = 1 + 3
  CHECK(st::signed_rank(d).statistic == 4);
  CHECK(st::signed_rank(d, Alternative::kGreater).p == 3.0 / 8);
  CHECK(st::signed_rank(d, Alternative::kLess).p == 6.0 / 8);
  CHECK(st::signed_rank(d).p == 6.0 / 8);
  CHECK(st::signed_rank(Values{0.5, 0, -1, 0, 2}).p == 6.0 / 8);  // zeros are ignored
  CHECK(st::signed_rank(Values{0, 0}).p == 1);
  CHECK(st::signed_rank(Values{1, 1, 1, 1, 1, 1, 1}, Alternative::kGreater).p == 1.0 / 128);
}

TEST_CASE("statistics and p-values agree with SciPy") {
  const auto tests = read_golden("statistics").at("tests");
  REQUIRE(tests.at("mann_whitney").size() == 24);
  for (const auto& c : tests.at("mann_whitney")) {
    const Values a = c.at("a"), b = c.at("b");
    const auto got = st::mann_whitney(a, b, alternative_of(c.at("alternative")));
    CAPTURE(a.size());
    CAPTURE(c.at("alternative").dump());
    CHECK(got.statistic == doctest::Approx(c.at("statistic").get<double>()).epsilon(1e-13));
    CHECK(agrees(got.p, c.at("p"), 1e-10));
  }
  REQUIRE(tests.at("signed_rank").size() == 27);
  for (const auto& c : tests.at("signed_rank")) {
    const Values d = c.at("differences");
    const auto got = st::signed_rank(d, alternative_of(c.at("alternative")));
    CAPTURE(d.size());
    CAPTURE(c.at("alternative").dump());
    CHECK(got.statistic == doctest::Approx(c.at("statistic").get<double>()).epsilon(1e-13));
    CHECK(agrees(got.p, c.at("p"), 1e-10));
  }
  REQUIRE(tests.at("welch").size() == 21);
  for (const auto& c : tests.at("welch")) {
    const auto got =
        st::welch_t(c.at("a").get<Values>(), c.at("b").get<Values>(), alternative_of(c.at("alternative")));
    CAPTURE(c.at("alternative").dump());
    CHECK(got.statistic == doctest::Approx(c.at("statistic").get<double>()).epsilon(1e-11));
    CHECK(agrees(got.p, c.at("p"), 1e-10));
  }
}

TEST_CASE("ties share ranks and reduce the variance, as in all 12,870 divisions of 16 samples") {
  const Values all{1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 4, 5, 6, 6, 7, 7};
  const Values a{1, 1, 2, 2, 3, 3, 4, 6}, b{2, 4, 4, 4, 5, 6, 7, 7};
  const auto rank = st::detail::midranks(all).rank;
  const auto seen = st::mann_whitney(a, b, Alternative::kLess);
  std::vector<int> in_a(8, 0);
  in_a.resize(16, 1);
  int as_low = 0, ways = 0;
  do {
    double u = -36;  // 8 * 9 / 2
    for (size_t i = 0; i < 16; ++i) u += in_a[i] * rank[i];
    as_low += u <= seen.statistic;
    ++ways;
  } while (std::next_permutation(in_a.begin(), in_a.end()));
  REQUIRE(ways == 12870);
  CHECK(seen.p == doctest::Approx(static_cast<double>(as_low) / ways).epsilon(0.03));
  CHECK(st::mann_whitney(Values(9, 1.0), Values(9, 1.0)).p == 1);
}

TEST_CASE("the rate of false alarms at 5 % is right for each test and each side") {
  // With 4000 runs, three standard errors of 5 % are 1 %. Rank tests of few samples reject slightly less
  // often.
  Generator random(12);
  int whitney[3] = {}, signed_ranks = 0, welch = 0;
  const int runs = 4000;
  for (int run = 0; run < runs; ++run) {
    const auto a = lognormal_samples(9, 0, random), b = lognormal_samples(12, 0, random);
    for (const auto side : {Alternative::kTwoSided, Alternative::kLess, Alternative::kGreater})
      whitney[static_cast<int>(side)] += st::mann_whitney(a, b, side).p <= 0.05;
    welch += st::welch_t(a, b, Alternative::kLess).p <= 0.05;
    Values d(12);
    for (double& x : d) x = heavy_number(random);
    signed_ranks += st::signed_rank(d, Alternative::kGreater).p <= 0.05;
  }
  const auto share = [&](int count) { return static_cast<double>(count) / runs; };
  CAPTURE(share(whitney[0]));
  CAPTURE(share(signed_ranks));
  CAPTURE(share(welch));
  for (const int count : whitney) {
    CHECK(share(count) <= 0.06);
    CHECK(share(count) >= 0.035);
  }
  CHECK(std::abs(share(signed_ranks) - 0.0461) <= 0.01);  // exact: 189 of 4096 sums are at most 17
  CHECK(std::abs(share(welch) - 0.05) <= 0.01);
}

TEST_CASE("power: a shift of two standard deviations is detected, on the right side only") {
  Generator random(13);
  int found = 0, wrong = 0, by_welch = 0;
  for (int run = 0; run < 500; ++run) {
    const auto a = lognormal_samples(9, 0, random), b = lognormal_samples(9, 0.2, random);
    found += st::mann_whitney(a, b, Alternative::kLess).p <= 0.05;
    wrong += st::mann_whitney(a, b, Alternative::kGreater).p <= 0.05;
    by_welch += st::welch_t(a, b, Alternative::kLess).p <= 0.05;
  }
  CHECK(found >= 475);
  CHECK(by_welch >= 475);
  CHECK(wrong <= 2);
}

TEST_CASE("input without enough information throws") {
  const Values none, one{1}, two{1, 2}, same{3, 3};
  const auto code = [](const std::function<void()>& f) { return message_of(f).substr(0, 10); };
  CHECK(code([&] { st::mann_whitney(none, two); }) == "TT-STAT-01");
  CHECK(code([&] { st::signed_rank(none); }) == "TT-STAT-01");
  CHECK(code([&] { st::welch_t(one, two); }) == "TT-STAT-03");
  CHECK(code([&] { st::welch_t(same, same); }) == "TT-STAT-06");
  CHECK(st::welch_t(same, two).p > 0);  // spread in one set is enough
}
