#include <support/check.hpp>
#include <tinytorch/benchmarking/samples.hpp>

using namespace course;
using namespace statistics;

namespace {

// The rank by the definition, in integers: the first k with k / n >= per_mille / 1000.
size_t rank_by_counting(size_t per_mille, size_t n) {
  size_t k = 1;
  while (1000 * k < per_mille * n) ++k;
  return k;
}

Numbers shuffled(Numbers x) {
  std::shuffle(x.begin(), x.end(), random_source());
  return x;
}
Numbers times(size_t n) {
  Numbers x;
  for (size_t i = 0; i < n; ++i) x.push_back(uniform(1, 5));
  return x;
}

}  // namespace

TEST_CASE("10.1 the rank of a percentile by its definition") {
  for (size_t n = 1; n <= 40; ++n) {
    for (const size_t per_mille : {1, 50, 100, 250, 333, 500, 750, 900, 950, 990, 1000}) {
      const size_t want = rank_by_counting(per_mille, n), got = nearest_rank(0.1 * double(per_mille), n);
      expect_equal("nearest_rank(" + shown(0.1 * double(per_mille)) + ", " + shown(n) + ")", got, want);
    }
  }
  for (const size_t n : {1, 2, 7})
    expect_equal("nearest_rank(0, " + shown(n) + ")", nearest_rank(0, n), size_t{1});
}

TEST_CASE("10.1 rounding errors do not change a rank") {
  for (const size_t n : {10, 20, 50, 100, 200, 1000, 5000, 10000}) {
    for (size_t per_mille = 1; per_mille <= 1000; ++per_mille) {
      const double percent = static_cast<double>(per_mille) / 10;
      const size_t want = rank_by_counting(per_mille, n), got = nearest_rank(percent, n);
      if (got == want) continue;
      expect(
          "nearest_rank(" + shown(percent) + ", " + shown(n) + ") is " + shown(want) + ", got " + shown(got),
          false,
          "99.9 is not a binary fraction: 99.9 * 1000 / 100 can be slightly above 999, and ceil() rounds it "
          "up to 1000");
    }
  }
  expect_equal("nearest_rank(99.9, 1000)", nearest_rank(99.9, 1000), size_t{999});
}

TEST_CASE("10.1 a percentile is one of the samples, not an interpolation") {
  for (const size_t n : {1, 2, 3, 10, 11, 64, 101}) {
    const Numbers x = times(n);
    Numbers sorted = x;
    std::sort(sorted.begin(), sorted.end());
    for (const size_t per_mille : {1, 100, 500, 900, 990, 1000}) {
      const size_t k = rank_by_counting(per_mille, n);
      const double got = percentile(x, 0.1 * double(per_mille));
      expect("percentile " + shown(0.1 * double(per_mille)) + " of " + shown(n) + " samples: sample no. " +
                 shown(k) + " in sorted order, " + shown(sorted[k - 1]) + "; got " + shown(got),
             got == sorted[k - 1],
             std::find(x.begin(), x.end(), got) == x.end()
                 ? "this is not one of the samples: do not interpolate"
                 : "");
    }
    expect_equal("percentile 0 of " + shown(n) + " samples: the smallest", percentile(x, 0), sorted[0]);
  }
}

TEST_CASE("10.1 the order of the samples does not matter, and they are not changed") {
  const Numbers x = shuffled({5, 1, 4, 4, 2, 9, 3, 3, 8, 7, 10, 6});
  const Numbers before = x;
  expect_equal("percentile 75 of " + shown(x), percentile(x, 75), 7.0);
  expect_equal("percentile 90 of " + shown(x), percentile(x, 90), 9.0);
  expect("the samples afterwards are " + shown(before) + "; got " + shown(x), x == before,
         "percentile must not change them: sort a copy");
}

TEST_CASE("10.1 the median is the middle sample, or the mean of the two middle samples") {
  expect_equal("median of {3, 1, 2}", median(Numbers{3, 1, 2}), 2.0);
  expect_equal("median of {4}", median(Numbers{4}), 4.0);
  expect_equal("median of {8, 1}", median(Numbers{8, 1}), 4.5);
  expect_equal("median of {100, 1, 3, 2}", median(Numbers{100, 1, 3, 2}), 2.5);
  expect_equal("median of {7, 7, 1, 7}", median(Numbers{7, 7, 1, 7}), 7.0);
  for (const size_t n : {9, 10, 51, 100}) {
    Numbers x = times(n), sorted = x;
    std::sort(sorted.begin(), sorted.end());
    const double want = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2, got = median(x);
    expect("median of " + shown(n) + " samples: " + shown(want) + ", got " + shown(got),
           std::abs(got - want) < 1e-12);
    std::span<double> place(x);
    const double in_place = detail::median_in_place(place);
    expect("median_in_place of the same samples: " + shown(want) + ", got " + shown(in_place),
           std::abs(in_place - want) < 1e-12);
    std::sort(x.begin(), x.end());
    expect("median_in_place reorders its samples and does not change their values", x == sorted);
  }
}

TEST_CASE("10.1 the geometric mean of ratios does not depend on which side is the baseline") {
  const auto close = [](double got, double want) { return std::abs(got / want - 1) < 1e-12; };
  expect("geometric_mean {1, 100}: 10, got " + shown(geometric_mean(Numbers{1, 100})),
         close(geometric_mean(Numbers{1, 100}), 10));
  expect("geometric_mean {2, 4, 8}: 4, got " + shown(geometric_mean(Numbers{2, 4, 8})),
         close(geometric_mean(Numbers{2, 4, 8}), 4));
  Numbers ratio = times(12), inverse;
  for (const double r : ratio) inverse.push_back(1 / r);
  const double there = geometric_mean(ratio), back = geometric_mean(inverse);
  expect("the geometric means of 12 ratios a / b, " + shown(there) + ", and of the ratios b / a, " +
             shown(back) + ", have the product 1",
         close(there * back, 1),
         "the arithmetic mean of 2 and 1/2 is 1.25, by which each would be faster than the other");
  const Numbers large(50, 1e300), small(50, 1e-300);
  expect("geometric_mean of 50 times 1e300: " + shown(geometric_mean(large)),
         close(geometric_mean(large), 1e300), "sum logarithms: the product overflows a double");
  expect("geometric_mean of 50 times 1e-300: " + shown(geometric_mean(small)),
         close(geometric_mean(small), 1e-300));
}

TEST_CASE("10.1 samples without a percentile or a geometric mean are refused") {
  const Numbers none, nan{1, NAN, 2}, endless{1, HUGE_VAL}, zero{1, 0, 2}, good{1, 2};
  expect_throws("TT-STAT-01", "percentile 50 of no samples", [&] { percentile(none, 50); });
  expect_throws("TT-STAT-01", "percentile 50 of {1, NaN, 2}", [&] { percentile(nan, 50); });
  expect_throws("TT-STAT-01", "percentile 50 of {1, infinity}", [&] { percentile(endless, 50); });
  expect_throws("TT-STAT-03", "percentile 101", [&] { percentile(good, 101); });
  expect_throws("TT-STAT-03", "percentile -1", [&] { percentile(good, -1); });
  expect_throws("TT-STAT-02", "geometric_mean of {1, 0, 2}", [&] { geometric_mean(zero); });
}
