#include <support/check.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>

using namespace course;
using namespace statistics;

namespace {

// Answers to n test samples, 1 for right and 0 for wrong. In this order: only `a` is right, only `b` is
// right, both are right, neither is right.
struct Answers {
  Numbers a, b;
  Answers(size_t n, size_t only_a, size_t only_b, size_t both) : a(n, 0.0), b(n, 0.0) {
    for (size_t i = 0; i < only_a + only_b + both; ++i) {
      a[i] = i < only_a || i >= only_a + only_b;
      b[i] = i >= only_a;
    }
  }
};
std::string text_of(const Interval& i) {
  return shown(i.estimate) + " from " + shown(i.low) + " to " + shown(i.high);
}

// Percentiles of the mean of n resampled differences, each in {-1, 0, 1}, from the exact distribution of the
// sum, which is computed draw by draw.
struct Resampled {
  std::vector<double> share;  // probability that the sum is i - n
  Resampled(size_t n, double up, double down) : share(2 * n + 1) {
    share[n] = 1;
    for (size_t draw = 0; draw < n; ++draw) {
      std::vector<double> next(share.size());
      for (size_t i = 0; i < share.size(); ++i) {
        if (share[i] == 0) continue;
        next[i] += share[i] * (1 - up - down);
        if (i > 0) next[i - 1] += share[i] * down;
        if (i + 1 < share.size()) next[i + 1] += share[i] * up;
      }
      share = next;
    }
  }
  double percentile(double percent) const {
    double sum = 0;
    for (size_t i = 0; i < share.size(); ++i)
      if ((sum += share[i]) * 100 >= percent)
        return (static_cast<double>(i) - static_cast<double>(share.size() / 2)) /
               static_cast<double>(share.size() / 2);
    return 1;
  }
};
constexpr int64_t kDraws = 3000;

}  // namespace

TEST_CASE("10.10 the difference of two means over the same samples") {
  const Answers x(100, 6, 2, 85);
  const Interval i = bootstrap_paired_difference(x.a, x.b, 1, {.draws = kDraws});
  expect("91 of 100 right answers minus 87 of 100: 0.04, got " + shown(i.estimate),
         std::abs(i.estimate - 0.04) < 1e-12);
  const Resampled exact(100, 0.06, 0.02);
  expect(
      "the interval at 95 %: from " + shown(exact.percentile(2.5)) + " to " + shown(exact.percentile(97.5)) +
          ", within 0.011; got " + text_of(i),
      std::abs(i.low - exact.percentile(2.5)) < 0.011 && std::abs(i.high - exact.percentile(97.5)) < 0.011);
  const Interval back = bootstrap_paired_difference(x.b, x.a, 1, {.draws = kDraws});
  expect("with exchanged arguments: -0.04, got " + shown(back.estimate),
         std::abs(back.estimate + 0.04) < 1e-12);
  const Interval weighted = bootstrap_paired_difference(x.a, x.b, 0.5, {.draws = 50});
  expect("0.91 - 0.5 * 0.87 = 0.475, got " + shown(weighted.estimate),
         std::abs(weighted.estimate - 0.475) < 1e-12, "the weight multiplies the second argument");
}

TEST_CASE("10.10 pairing cancels the difficulty that both share") {
  const Answers x(400, 4, 2, 200);  // both are wrong on about half of the samples, and disagree on 6
  const Interval paired = bootstrap_paired_difference(x.a, x.b, 1, {.draws = 1000});
  const double width = paired.high - paired.low;
  const Resampled exact(400, 0.01, 0.005);
  expect(
      "two networks that disagree on 6 of 400 samples: a width of " +
          shown(exact.percentile(97.5) - exact.percentile(2.5)) + ", got " + shown(width),
      std::abs(width - (exact.percentile(97.5) - exact.percentile(2.5))) < 0.006,
      "draw samples and take both answers of each; if the answers are drawn separately, the width is 0.14");
  Numbers shuffled = x.b;
  std::shuffle(shuffled.begin(), shuffled.end(), random_source());
  const Interval apart = bootstrap_paired_difference(x.a, shuffled, 1, {.draws = 1000});
  expect("if the answers are not paired, the interval is ten times as wide: " + shown(apart.high - apart.low),
         apart.high - apart.low > 3 * width);
  const Interval same = bootstrap_paired_difference(x.a, x.a, 1, {.draws = 200});
  expect("the difference of the same answers: 0 from 0 to 0; got " + text_of(same),
         same.estimate == 0 && same.low == 0 && same.high == 0);
  expect_throws("TT-STAT-05", "bootstrap_paired_difference of 100 and 99 answers",
                [] { bootstrap_paired_difference(Numbers(100, 1.0), Numbers(99, 1.0)); });
  expect_throws("TT-STAT-01", "bootstrap_paired_difference without answers",
                [] { bootstrap_paired_difference(Numbers{}, Numbers{}); });
}

TEST_CASE("10.10 the lower bound is one-sided") {
  const Answers x(400, 40, 16, 300);
  const Resampled exact(400, 0.1, 0.04);
  for (const double confidence : {0.9, 0.95}) {
    const double got = paired_lower_bound(x.a, x.b, 1, {.draws = 1500, .confidence = confidence});
    const double want = exact.percentile(100 * (1 - confidence));
    const double both = exact.percentile(50 * (1 - confidence));
    expect("lower bound at " + shown(100 * confidence) + " %: " + shown(want) + ", within 0.0036; got " +
               shown(got),
           std::abs(got - want) < 0.0036,
           std::abs(got - both) < 0.0036
               ? "this is the lower end of a two-sided interval; the bound is one-sided"
               : "");
  }
  expect_throws("TT-STAT-03", "paired_lower_bound with a confidence of 0.4",
                [&] { paired_lower_bound(x.a, x.b, 1, {.confidence = 0.4}); });
}

TEST_CASE("10.10 the gate asks for 99 % of the reference's accuracy") {
  const auto bound = [](size_t n, size_t only_a, size_t only_b, size_t both, double weight = 0.99) {
    const Answers x(n, only_a, only_b, both);
    return paired_lower_bound(x.a, x.b, weight, {.draws = 500});
  };
  const double same = bound(1000, 0, 0, 950);
  expect("the reference itself, 950 of 1000 right: passes; got " + shown(same), same >= 0);
  const double slightly = bound(1000, 2, 5, 945);
  expect("947 of 1000 against 950, disagreeing on 7: passes; got " + shown(slightly), slightly >= 0,
         "0.947 - 0.99 * 0.95 = 0.0065, and the uncertainty from 7 samples of disagreement is smaller");
  const double few = bound(100, 1, 3, 92);
  expect("93 of 100 against 95: does not pass, because 100 samples are too few; got " + shown(few), few < 0);
  const double noisy = bound(1000, 40, 43, 907);
  expect("947 of 1000 against 950, disagreeing on 83: does not pass; got " + shown(noisy), noisy < 0,
         "with so much disagreement the loss may be more than 1 %");
  const double worse = bound(1000, 0, 30, 920);
  expect("920 of 1000 against 950: does not pass; got " + shown(worse), worse < 0);
  const double strict = bound(1000, 2, 5, 945, 1);
  expect("947 of 1000 against 950, with 100 % required: does not pass; got " + shown(strict), strict < 0);
}

TEST_CASE("10.10 the seed determines the bound") {
  const Answers x(300, 20, 15, 200);
  const auto with = [&](uint64_t seed) {
    return paired_lower_bound(x.a, x.b, 1, {.draws = 60, .seed = seed});
  };
  std::set<double> seen;
  for (uint64_t seed = 0; seed < 8; ++seed) seen.insert(with(seed));
  expect("the same seed gives the same bound", with(3) == with(3),
         "if each call drew another verdict, a user could repeat it until it passes");
  expect("eight seeds with 60 draws each give more than one bound; got " + shown(seen.size()),
         seen.size() > 1);
}
