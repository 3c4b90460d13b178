// Paired areas under the ROC curve are compared with a count of every pair and with DeLong's variance by its
// definition; the coverage of interval and bound is simulated.
#include <doctest/doctest.h>

#include <functional>
#include <numbers>
#include <support/errors.hpp>
#include <support/noise.hpp>
#include <tinytorch/benchmarking/paired_auc.hpp>
#include <tinytorch/core/random.hpp>

namespace st = tinytorch::statistics;
using tinytorch::Generator;

namespace {

struct Drawn {
  std::vector<int64_t> labels;
  std::vector<double> a, b;  // scores
};

// Normal scores of the given numbers of positives and negatives, in random order. The mean of positives is
// higher by `ahead`. Both models share half of their variance, as if they found the same samples hard.
Drawn draw(size_t positives, size_t negatives, double ahead_a, double ahead_b, Generator& random) {
  Drawn d;
  size_t left[] = {negatives, positives};
  while (left[0] + left[1] > 0) {
    const int64_t label = random.below(left[0] + left[1]) < left[1];
    --left[label];
    const double common = normal_number(random) * std::numbers::sqrt2 / 2;
    const auto own = [&] { return normal_number(random) * std::numbers::sqrt2 / 2; };
    d.labels.push_back(label);
    d.a.push_back(common + own() + (label != 0 ? ahead_a : 0));
    d.b.push_back(common + own() + (label != 0 ? ahead_b : 0));
  }
  return d;
}
// The true area for such scores: P(X > Y), where the difference has variance 2.
double true_auc(double ahead) { return 1 - st::normal_tail(ahead / std::numbers::sqrt2); }

// The result of a pair by the definition: 1, 1/2 or 0.
double order(double positive, double negative, double margin) {
  const auto one = [&](double x) { return x > negative ? 1.0 : x == negative ? 0.5 : 0.0; };
  return (one(positive - margin) + one(positive + margin)) / 2;
}

struct ByPairs {
  double difference = 0, variance = 0;
};
// DeLong's estimate and variance by their definitions, over all pairs, in long double.
ByPairs by_pairs(const Drawn& d, double weight, double margin) {
  std::vector<long double> of[2];  // placements of negatives and of positives
  for (size_t i = 0; i < d.labels.size(); ++i) {
    long double sum = 0, others = 0;
    for (size_t j = 0; j < d.labels.size(); ++j) {
      if ((d.labels[i] != 0) == (d.labels[j] != 0)) continue;
      const size_t p = d.labels[i] != 0 ? i : j, n = p == i ? j : i;
      sum += order(d.a[p], d.a[n], margin) - weight * order(d.b[p], d.b[n], margin);
      ++others;
    }
    of[d.labels[i] != 0].push_back(sum / others);
  }
  ByPairs out;
  for (const auto& kind : of) {
    long double mean = 0, squares = 0;
    for (const long double x : kind) mean += x / kind.size();
    for (const long double x : kind) squares += (x - mean) * (x - mean);
    out.difference = static_cast<double>(mean);
    out.variance += static_cast<double>(squares / (kind.size() - 1) / kind.size());
  }
  return out;
}

struct Shares {
  double interval = 0, bound = 0;  // fraction of 1,000 runs that contain the true value
};
Shares coverage(size_t positives, size_t negatives, double ahead_a, double ahead_b, double weight) {
  constexpr int kRuns = 1000;
  Generator random(positives + 7 * negatives);
  const double truth = true_auc(ahead_a) - weight * true_auc(ahead_b);
  int held = 0, above = 0;
  for (int run = 0; run < kRuns; ++run) {
    const Drawn d = draw(positives, negatives, ahead_a, ahead_b, random);
    const auto a = st::pair_wins(d.a, d.labels), b = st::pair_wins(d.b, d.labels);
    const st::Interval i = st::paired_auc_difference(a, b, weight);
    held += i.low <= truth && truth <= i.high;
    above += st::paired_auc_lower_bound(a, b, weight) <= truth;
  }
  return {held / double{kRuns}, above / double{kRuns}};
}

}  // namespace

TEST_CASE("pair_wins and the area match values computed by hand") {
  const std::vector<int64_t> labels{0, 1, 0, 1};
  const auto wins = st::pair_wins(std::vector<double>{1, 2, 2, 3}, labels);
  CHECK(wins == st::PairWins{{6, 8}, {8, 6}});
  CHECK(st::auc_of(wins) == 0.875);
  CHECK(st::auc_of(st::pair_wins(std::vector<double>{1, 2, 2, 3}, labels, 1.5)) == 0.625);
  const auto wrong = st::pair_wins(std::vector<double>{NAN, 2, 1, -INFINITY}, labels);
  CHECK(wrong == st::PairWins{{4, 0}, {0, 4}});
  const auto constant = st::pair_wins(std::vector<double>{5, 5, 5, 5}, labels);
  CHECK(st::auc_of(constant) == 0.5);
}

TEST_CASE("area and variance match a count of every pair and DeLong's definition") {
  Generator random(5);
  for (const auto& counts : {std::pair<size_t, size_t>{2, 2}, {2, 31}, {17, 5}, {40, 60}})
    for (const double margin : {0.0, 0.25, 1.0}) {
      Drawn d = draw(counts.first, counts.second, 1.0, 1.4, random);
      for (auto* scores : {&d.a, &d.b})
        for (double& x : *scores)
          x = std::round(8 * x) / 8;  // ties, and pairs that differ by exactly the margin
      const auto a = st::pair_wins(d.a, d.labels, margin), b = st::pair_wins(d.b, d.labels, margin);
      const auto sum = [](const std::vector<int64_t>& x) {
        return std::accumulate(x.begin(), x.end(), int64_t{0});
      };
      CHECK(sum(a.positives) == sum(a.negatives));
      for (const double weight : {1.0, 0.99}) {
        CAPTURE(counts.first);
        CAPTURE(margin);
        const ByPairs want = by_pairs(d, weight, margin);
        const st::Interval got = st::paired_auc_difference(a, b, weight, 0.9);
        const double half = 1.6448536269514722 * std::sqrt(want.variance);
        CHECK(got.estimate == doctest::Approx(want.difference).epsilon(1e-12));
        CHECK(got.high - got.estimate == doctest::Approx(half).epsilon(1e-9));
        CHECK(st::paired_auc_lower_bound(a, b, weight) == doctest::Approx(got.low).epsilon(1e-12));
      }
    }
}

TEST_CASE("interval and bound contain the true value in 93 to 97 % of 1,000 runs") {
  struct Case {
    size_t positives, negatives;
    double ahead_a, ahead_b, weight;
  };
  for (const Case& c :
       {Case{50, 50, 1.0, 1.0, 1}, Case{200, 80, 1.6, 1.2, 1}, Case{300, 300, 2.3, 2.3, 0.99}}) {
    const Shares s = coverage(c.positives, c.negatives, c.ahead_a, c.ahead_b, c.weight);
    CAPTURE(c.positives);
    CAPTURE(s.interval);
    CAPTURE(s.bound);
    for (const double share : {s.interval, s.bound}) {
      CHECK(share >= 0.93);
      CHECK(share <= 0.97);
    }
  }
}

TEST_CASE("scores without pairs and areas of different samples throw") {
  const auto code = [](const std::function<void()>& f) { return message_of(f).substr(0, 10); };
  const std::vector<double> scores{1, 2, 3, 4};
  const auto wins = [&](const std::vector<int64_t>& labels) { return st::pair_wins(scores, labels); };
  CHECK(code([&] { wins({1, 1, 1, 1}); }) == "TT-STAT-01");
  CHECK(code([&] { wins({0, 1}); }) == "TT-STAT-05");
  CHECK(code([&] { st::paired_auc_difference(wins({0, 1, 0, 1}), wins({0, 0, 0, 1})); }) == "TT-STAT-05");
  CHECK(code([&] { st::paired_auc_difference(wins({0, 0, 0, 1}), wins({0, 0, 0, 1})); }) == "TT-STAT-03");
  CHECK(code([&] {
          st::paired_auc_lower_bound(wins({0, 1, 0, 1}), wins({0, 1, 0, 1}), 1, 0.4);
        }) == "TT-STAT-03");
}
