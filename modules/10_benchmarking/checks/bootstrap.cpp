#include <support/check.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>

using namespace course;
using namespace statistics;

namespace {

double mean_of(std::span<const double> x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

// The exact distribution of a statistic over all resamples: every way to draw x.size() samples with
// replacement is equally likely.
std::map<double, double> all_resamples(const Numbers& x, const std::function<double(Numbers)>& statistic) {
  const auto ways = static_cast<size_t>(std::lround(std::pow(x.size(), x.size())));
  std::map<double, double> share;
  for (size_t way = 0; way < ways; ++way) {
    Numbers drawn;
    for (size_t i = 0, rest = way; i < x.size(); ++i, rest /= x.size()) drawn.push_back(x[rest % x.size()]);
    share[statistic(drawn)] += 1 / static_cast<double>(ways);
  }
  return share;
}
double percentile_of(const std::map<double, double>& share, double percent) {
  double sum = 0;
  for (const auto& [value, s] : share)
    if ((sum += s) * 100 >= percent) return value;
  return share.rbegin()->first;
}

void expect_interval(const std::string& what, const Interval& got, const Interval& want,
                     const std::string& guess = "") {
  expect(what + ": " + shown(want.estimate) + " from " + shown(want.low) + " to " + shown(want.high) +
             "; got " + shown(got.estimate) + " from " + shown(got.low) + " to " + shown(got.high),
         std::abs(got.estimate - want.estimate) < 1e-9 && std::abs(got.low - want.low) < 1e-9 &&
             std::abs(got.high - want.high) < 1e-9,
         guess);
}

}  // namespace

TEST_CASE("10.3 samples are drawn with replacement, all equally likely") {
  const Numbers x{1, 2, 3};
  Generator random(5);
  std::map<std::string, int> seen;
  Numbers drawn(3);
  for (int i = 0; i < 13500; ++i) {
    resample(x, drawn, random);
    std::string text;
    for (const double d : drawn) {
      expect("each draw is one of the samples; got " + shown(d), d == 1 || d == 2 || d == 3);
      text += shown(d);
    }
    ++seen[text];
  }
  expect("3 samples can be drawn in 27 ways, such as 1 1 3; got " + shown(seen.size()), seen.size() == 27,
         seen.size() == 6 ? "these are the draws without repetition, so this is shuffling" : "");
  for (const auto& [way, count] : seen)
    expect("each of the 27 ways must come about 500 times in 13500; " + way + " came " + shown(count),
           std::abs(count - 500) < 120);
}

TEST_CASE("10.3 any number of draws from any number of samples") {
  Numbers few{4, 5}, many(50);
  std::iota(many.begin(), many.end(), 0.0);
  Generator random(1);
  Numbers out(2000, -1);
  resample(few, out, random);
  const auto fours = std::count(out.begin(), out.end(), 4.0), fives = std::count(out.begin(), out.end(), 5.0);
  expect("2000 draws from {4, 5}: about 1000 of each; got " + shown(fours) + " and " + shown(fives),
         fours + fives == 2000 && std::abs(fours - 1000) < 150);
  std::set<double> seen;
  Numbers three(3);
  for (int i = 0; i < 400; ++i) {
    resample(many, three, random);
    seen.insert(three.begin(), three.end());
  }
  expect("400 times 3 draws from 50 samples must give all 50; got " + shown(seen.size()), seen.size() == 50,
         "draw from all samples, not only from the first out.size()");
}

TEST_CASE("10.3 the percentile interval of replicates") {
  Numbers x(1000);
  std::iota(x.begin(), x.end(), 1.0);
  std::shuffle(x.begin(), x.end(), random_source());
  expect_interval("1 .. 1000 in any order at 95 %", percentile_interval(7, x), {7, 25, 975},
                  "2.5 % are outside on each side");
  expect_interval("1 .. 1000 at 90 %", percentile_interval(500, x, 0.9), {500, 50, 950},
                  "5 % are outside on each side");
  expect_interval("1 .. 1000 at 50 %", percentile_interval(500, x, 0.5), {500, 250, 750});
  Numbers one{3};
  expect_interval("one replicate", percentile_interval(2, one), {2, 3, 3});
  Numbers none;
  expect_throws("TT-STAT-01", "percentile_interval of no replicates", [&] { percentile_interval(1, none); });
  expect_throws("TT-STAT-03", "percentile_interval at 200 %", [&] { percentile_interval(1, one, 2); });
}

TEST_CASE("10.3 bootstrap repeats the experiment as often as requested") {
  int calls = 0;
  const Interval i = bootstrap(42, [&](Generator&) { return static_cast<double>(++calls); },
                               {.draws = 200, .confidence = 0.9});
  expect_equal("calls of the replicate with 200 draws", calls, 200);
  expect_interval(
      "replicates 1 .. 200 at 90 %, with an estimate of 42", i, {42, 10, 190},
      "the estimate is that of the samples, not of the resamples; the confidence is that of the options");
  const auto drawn = [](uint64_t seed) {
    Numbers all;
    bootstrap(0, [&](Generator& r) { return all.emplace_back(r.uniform()); }, {.draws = 50, .seed = seed});
    return all;
  };
  const Numbers first = drawn(3);
  expect("50 draws with one seed must use 50 different random numbers; got " +
             shown(std::set<double>(first.begin(), first.end()).size()),
         std::set<double>(first.begin(), first.end()).size() == 50,
         "use one generator for all draws, so that its state advances");
  expect("the same seed gives the same draws", drawn(3) == first);
  expect("another seed gives other draws", drawn(4) != first, "use options.seed");
  expect_throws("TT-STAT-03", "bootstrap with 0 draws",
                [] { bootstrap(1, [](Generator&) { return 1.0; }, {.draws = 0}); });
}

TEST_CASE("10.3 intervals agree with those of all possible resamples") {
  const Numbers x{1, 2, 4, 8, 16};
  const auto middle = [](Numbers d) {
    std::nth_element(d.begin(), d.begin() + 2, d.end());
    return d[2];
  };
  const auto medians = all_resamples(x, middle),
             means = all_resamples(x, [](const Numbers&d) { return mean_of(d); });
  for (const double confidence : {0.99, 0.6, 0.2}) {
    const double tail = 50 * (1 - confidence);
    expect_interval("the median of {1, 2, 4, 8, 16} at " + shown(100 * confidence) +
                        " %, whose 3125 resamples can be counted",
                    bootstrap_median(x, {.draws = 8000, .confidence = confidence}),
                    {4, percentile_of(medians, tail), percentile_of(medians, 100 - tail)});
  }
  const Interval mean = bootstrap_mean(x, {.draws = 20000, .confidence = 0.8});
  expect("the mean of {1, 2, 4, 8, 16} at 80 %: from " + shown(percentile_of(means, 10)) + " to " +
             shown(percentile_of(means, 90)) + ", within 0.2; got " + shown(mean.low) + " to " +
             shown(mean.high),
         std::abs(mean.low - percentile_of(means, 10)) <= 0.21 &&
             std::abs(mean.high - percentile_of(means, 90)) <= 0.21);
}

TEST_CASE("10.3 the hierarchical bootstrap draws processes, then samples within them") {
  using Processes = std::vector<std::vector<double>>;
  const auto at = [](const Processes& p, double confidence) {
    return bootstrap_hierarchical(p, [](std::span<double> d) { return mean_of(d); },
                                  {.draws = 4000, .confidence = confidence});
  };
  const Processes apart{{1, 1, 1, 1}, {9, 9, 9, 9}};
  // Both draws are the first process with probability 1/4, both the second with 1/4, otherwise one of each.
  expect_interval("a process whose samples are all 1 and one whose samples are all 9, at 60 %",
                  at(apart, 0.6), {5, 1, 9},
                  "draw processes first: there are two independent processes, not eight independent samples");
  expect_interval("the same two processes at 40 %", at(apart, 0.4), {5, 5, 5},
                  "half of the draws have one of each process");
  const Processes unequal{{1}, {9, 9, 9}};
  expect_interval("a process with one sample 1 and one with three of 9, at 40 %", at(unequal, 0.4), {7, 7, 7},
                  "draw as many samples of a process as it has");
  const Processes one{{1, 2, 4, 8, 16}};
  const auto means = all_resamples(one[0], [](const Numbers& d) { return mean_of(d); });
  const Interval single = at(one, 0.8);
  expect("with a single process only its samples are drawn: about " + shown(percentile_of(means, 10)) +
             " to " + shown(percentile_of(means, 90)) + "; got " + shown(single.low) + " to " +
             shown(single.high),
         std::abs(single.low - percentile_of(means, 10)) < 0.5 &&
             std::abs(single.high - percentile_of(means, 90)) < 0.5);
  expect_throws("TT-STAT-01", "a process without samples", [&] { at({{1}, {}}, 0.9); });
  expect_throws("TT-STAT-01", "no process", [&] { at({}, 0.9); });
}

TEST_CASE("10.3 intervals of few samples are too narrow by a known factor") {
  // The true mean of 5 normal numbers is 0, and the interval contains it in less than 95 % of the
  // experiments.
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  const auto held = [&](size_t n) {
    int count = 0;
    for (uint64_t run = 0; run < 300; ++run) {
      Numbers x(n);
      for (double& s : x) s = normal(random);
      const Interval i = bootstrap_mean(x, {.draws = 200, .seed = run});
      count += i.low <= 0 && 0 <= i.high;
    }
    return count;
  };
  const int few = held(5), more = held(30);
  expect(
      "300 experiments with 5 samples: the 95 % interval contains the true mean in about 250 of them, not in "
      "285; got " +
          shown(few),
      few >= 225 && few <= 272, "resamples of 5 have a smaller spread than samples of 5, by the root of 4/5");
  expect(
      "300 experiments with 30 samples: the interval contains the true mean in about 280; got " + shown(more),
      more >= 267 && more > few);
}
