#include <support/check.hpp>
#include <tinytorch/benchmarking/paired_ratio.hpp>

using namespace course;
using namespace statistics;

namespace {

// The sum of the ranks, by magnitude, of the values above 0. All magnitudes are different.
double rank_sum(const Numbers& x) {
  double sum = 0;
  for (const double a : x)
    for (const double b : x) sum += a > 0 && std::abs(b) <= std::abs(a);
  return sum;
}
// Counts, for each sum, how many of the 2^n ways to give signs to the ranks 1 .. n give this sum.
std::vector<double> sums_of_signs(size_t n) {
  std::vector<double> ways(n * (n + 1) / 2 + 1);
  for (size_t signs = 0; signs < size_t{1} << n; ++signs) {
    size_t sum = 0;
    for (size_t i = 0; i < n; ++i) sum += (signs >> i & 1) * (i + 1);
    ++ways[sum];
  }
  return ways;
}
double share_up_to(const std::vector<double>& ways, double sum) {
  double below = 0, all = 0;
  for (size_t s = 0; s < ways.size(); ++s)
    all += ways[s], below += static_cast<double>(s) <= sum ? ways[s] : 0;
  return below / all;
}
Numbers to_times(const Numbers& logs, double factor = 1) {
  Numbers out;
  for (const double l : logs) out.push_back(factor * std::exp(l));
  return out;
}
Numbers ones(size_t n) { return Numbers(n, 1.0); }
std::string text_of(const Interval& i) {
  return shown(i.estimate) + " from " + shown(i.low) + " to " + shown(i.high);
}
bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b) + 1e-12; }

}  // namespace

TEST_CASE("10.7 the Walsh averages: the mean of each pair, and of each value with itself") {
  Numbers got = detail::walsh_averages(Numbers{1, 5, 2});
  std::sort(got.begin(), got.end());
  expect_equal("walsh_averages of {1, 5, 2}, sorted", got, Numbers{1, 1.5, 2, 3, 3.5, 5});
  for (const size_t n : {1, 2, 7, 20})
    expect_equal("number of Walsh averages of " + shown(n) + " values",
                 detail::walsh_averages(ones(n)).size(), n * (n + 1) / 2);
}

TEST_CASE("10.7 the number of improbable signed-rank sums, by counting all signs") {
  for (size_t n = 1; n <= 12; ++n) {
    const auto ways = sums_of_signs(n);
    for (const double risk : {0.0001, 0.005, 0.025, 0.1, 0.26}) {
      size_t want = 0;
      while (want < ways.size() && share_up_to(ways, static_cast<double>(want)) <= risk) ++want;
      expect_equal(
          "signed_ranks_within(" + shown(risk) + ", " + shown(n) + "): of 2^" + shown(n) +
              " equally likely signs, the number of sums 0, 1, ... whose shares add up to at most this risk",
          detail::signed_ranks_within(risk, n), want);
    }
  }
}

TEST_CASE("10.7 the ratio is above 1 if the numerator is larger") {
  const auto twice = paired_ratio(Numbers(9, 6.0), Numbers(9, 3.0));
  expect("9 blocks of 6 s and 3 s give a ratio", twice.has_value());
  expect("the ratio of 6 s to 3 s: 2 from 2 to 2; got " + text_of(*twice),
         close(twice->estimate, 2) && close(twice->low, 2) && close(twice->high, 2));
  Numbers logs;
  for (int i = 0; i < 10; ++i) logs.push_back(uniform(-0.5, 0.5));
  const Numbers a = to_times(logs, 3), b = ones(10);
  const Interval there = *paired_ratio(a, b), back = *paired_ratio(b, a);
  expect("a / b is " + text_of(there) + ", b / a is " + text_of(back) + ": each the inverse of the other",
         close(there.estimate * back.estimate, 1) && close(there.low * back.high, 1) &&
             close(there.high * back.low, 1),
         "use logarithms, which treat numerator and denominator equally");
  Numbers averages = detail::walsh_averages(logs);
  std::sort(averages.begin(), averages.end());
  expect("the estimate is the median of the 55 means of two log ratios, " +
             shown(3 * std::exp(averages[27])) + "; got " + shown(there.estimate),
         close(there.estimate, 3 * std::exp(averages[27])));
}

TEST_CASE("10.7 a slow block slows both contenders, and the ratio does not change") {
  Numbers a, b;
  for (int block = 0; block < 12; ++block) {
    const double slow = std::exp(uniform(-3, 3));  // slowdown of the machine in this block
    a.push_back(1.3 * slow), b.push_back(slow);
  }
  const Interval i = *paired_ratio(a, b);
  expect(
      "a ratio of 1.3 in each block, on a machine whose speed differs between blocks by a factor of up to "
      "400: 1.3 from 1.3 to 1.3; "
      "got " +
          text_of(i),
      close(i.estimate, 1.3) && close(i.low, 1.3) && close(i.high, 1.3),
      "compute a ratio for each block; two medians over all blocks do not use the pairs");
}

TEST_CASE("10.7 the interval holds exactly the ratios that the signed-rank test does not reject") {
  for (int round = 0; round < 6; ++round) {
    Numbers logs;
    for (int i = 0; i < 9; ++i) logs.push_back(uniform(-1, 1));
    const auto ways = sums_of_signs(9);
    const Interval i = *paired_ratio(to_times(logs), ones(9), 0.9);
    for (double shift = -1.03; shift < 1.03; shift += 0.031) {
      Numbers moved, turned;
      for (const double l : logs) moved.push_back(l - shift), turned.push_back(shift - l);
      const double tail = std::min(share_up_to(ways, rank_sum(moved)), share_up_to(ways, rank_sum(turned)));
      const bool within = i.low <= std::exp(shift) && std::exp(shift) <= i.high;
      expect("logs " + shown(logs) + " at 90 %: a true ratio of " + shown(std::exp(shift)) +
                 " has a tail probability of " + shown(tail) +
                 (tail > 0.05 ? ", so it is" : ", so it is not") + " within " + text_of(i),
             within == (tail > 0.05),
             "the bounds are order statistics of the means; leave out as many at each end as "
             "signed_ranks_within says");
    }
  }
}

TEST_CASE("10.7 the interval holds as often as its confidence says, over all 256 signs of 8 blocks") {
  const Numbers sizes{0.11, 0.23, 0.37, 0.52,
                      0.64, 0.81, 0.9,  1.3};  // magnitudes of eight random differences
  int missed = 0;
  for (size_t signs = 0; signs < 256; ++signs) {
    Numbers logs;
    for (size_t i = 0; i < 8; ++i) logs.push_back((signs >> i & 1) ? sizes[i] : -sizes[i]);
    const Interval i = *paired_ratio(to_times(logs), ones(8));
    missed += i.low > 1 || i.high < 1;
  }
  expect(
      "two equal contenders: the interval of 95 % does not contain 1 in 10 of 256 cases, which is 3.9 %; "
      "got " +
          shown(missed),
      missed == 10, missed > 12 ? "this is more than 5 %, so the interval is too narrow" : "");
}

TEST_CASE("10.7 too few blocks give no interval") {
  expect("5 blocks give no interval at 95 %", !paired_ratio(Numbers{1, 2, 3, 4, 5}, ones(5)),
         "1 of 32 ways to give signs is 3.1 % on each side");
  const auto six = paired_ratio(Numbers{1, 2, 3, 4, 5, 7}, ones(6));
  expect("6 blocks give an interval from the smallest ratio to the largest; got " +
             (six ? text_of(*six) : "nothing"),
         six && close(six->low, 1) && close(six->high, 7));
  expect("7 blocks give no interval at 99 %", !paired_ratio(Numbers{1, 2, 3, 4, 5, 6, 7}, ones(7), 0.99));
  expect("8 blocks give an interval at 99 %",
         paired_ratio(Numbers{1, 2, 3, 4, 5, 6, 7, 8}, ones(8), 0.99).has_value());
  expect_throws("TT-STAT-05", "paired_ratio of 3 blocks and 2 blocks", [] {
    paired_ratio(Numbers{1, 2, 3}, Numbers{1, 2});
  });
  expect_throws("TT-STAT-02", "paired_ratio with a time of 0 in the numerator", [] {
    paired_ratio(Numbers{1, 0, 1, 1, 1, 1}, ones(6));
  });
  expect_throws("TT-STAT-02", "paired_ratio with a time of 0 in the denominator", [] {
    paired_ratio(ones(6), Numbers{1, 0, 1, 1, 1, 1});
  });
}

TEST_CASE("10.7 a new record must be significant and large enough") {
  const auto trial = [](const Numbers& holder_over_challenger) {
    return challenge_record(holder_over_challenger, ones(holder_over_challenger.size()));
  };
  const RecordTrial seven = trial({1.05, 1.06, 1.07, 1.08, 1.09, 1.1, 1.11});
  expect("faster in 7 of 7 blocks: p is 1 / 128, got " + shown(seven.p), close(seven.p, 1 / 128.0));
  expect("the speedup, the holder's time over the challenger's, is 1.08 and accepted; got " +
             shown(seven.speedup),
         std::abs(seven.speedup - 1.08) < 0.002 && seven.accepted);
  const RecordTrial six = trial({1.5, 1.6, 1.7, 1.8, 1.9, 2.0});
  expect(
      "1.5 to 2 times as fast in 6 of 6 blocks: p is 1 / 64, which is not below 0.01, so the record is not "
      "accepted",
      close(six.p, 1 / 64.0) && !six.accepted);
  const RecordTrial slight = trial({1.001, 1.002, 1.003, 1.004, 1.005, 1.006, 1.007, 1.008});
  expect("0.5 % faster in every block: not accepted", slight.p < 0.01 && !slight.accepted,
         "the speedup is below least_gain");
  expect("0.5 % faster in every block, with a least gain of 0.1 %: accepted",
         challenge_record(Numbers{1.001, 1.002, 1.003, 1.004, 1.005, 1.006, 1.007, 1.008}, ones(8),
                          {.least_gain = 0.001})
             .accepted);
  const RecordTrial slower = trial({0.5, 0.5, 0.6, 0.6, 0.7, 0.8, 0.9, 0.9});
  expect("slower in every block: p is 1, got " + shown(slower.p) + ", not accepted",
         close(slower.p, 1) && !slower.accepted, "the test is one-sided");
  const RecordTrial equal = trial(ones(20));
  expect("equal times: p " + shown(equal.p) + ", speedup " + shown(equal.speedup) + ", not accepted",
         equal.p == 1 && close(equal.speedup, 1) && !equal.accepted);
  Numbers logs;
  for (int i = 0; i < 10; ++i) logs.push_back(uniform(-0.4, 1));
  const double want = 1 - share_up_to(sums_of_signs(10), rank_sum(logs) - 1), got = trial(to_times(logs)).p;
  expect("log ratios " + shown(logs) + ": p is " + shown(want) + " by all 1024 ways to give signs, got " +
             shown(got),
         std::abs(got - want) < 1e-9);
}
