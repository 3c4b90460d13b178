// The area under the ROC curve: against counting all pairs, against the library, and its interval.
#include <tinymlperf/benchmarks/auc.hpp>

#include <doctest/doctest.h>

#include <tinytorch/layers/metrics.hpp>
#include <tinytorch/tinytorch.hpp>

using tinymlperf::judge::Auc;
namespace tt = tinytorch;

namespace {

double counted(const std::vector<double>& scores, const std::vector<int64_t>& labels, double margin) {
  double won = 0, pairs = 0;
  for (size_t p = 0; p < scores.size(); ++p)
    for (size_t n = 0; n < scores.size(); ++n) {
      if (labels[p] == 0 || labels[n] != 0) continue;
      ++pairs;
      const double ahead = scores[p] - scores[n];
      won += ahead > margin ? 1 : ahead < -margin ? 0 : 0.5;
    }
  return won / pairs;
}

struct Drawn {
  std::vector<double> scores;
  std::vector<int64_t> labels;
};
// Positives are `ahead` on average; eighths, so that there are ties.
Drawn draw(size_t n, double ahead, uint64_t seed) {
  tt::Generator random(seed);
  Drawn d;
  for (size_t i = 0; i < n; ++i) {
    d.labels.push_back(static_cast<int64_t>(random.below(2)));
    d.scores.push_back(std::floor(8 * random.uniform(0, 2)) / 8 + (d.labels.back() != 0 ? ahead : 0));
  }
  return d;
}

}  // namespace

TEST_CASE("the same as counting every pair, and without a margin as the library") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Drawn d = draw(40, 0.5, seed);
    CHECK(Auc(d.scores, d.labels).area() ==
          doctest::Approx(tt::roc_auc(tt::from_data(d.scores), tt::from_data(d.labels))));
    for (const double margin : {0.0, 0.2, 0.6, 5.0})
      CHECK(Auc(d.scores, d.labels, margin).area() == doctest::Approx(counted(d.scores, d.labels, margin)));
  }
  CHECK(Auc({1, 2, 3, 4}, {0, 0, 1, 1}).area() == 1);
  CHECK(Auc({1, 2, 3, 4}, {1, 1, 0, 0}).area() == 0);
  CHECK(Auc({5, 5, 5, 5}, {1, 0, 1, 0}).area() == 0.5);
}

TEST_CASE("a score that is no number is on the wrong side") {
  CHECK(Auc({NAN, 1, 2, 3}, {0, 0, 1, 1}).area() == 0.5);
  CHECK(Auc({0, 1, INFINITY, 3}, {0, 0, 1, 1}).area() == 0.5);
  CHECK(Auc({NAN, NAN, NAN, NAN}, {0, 0, 1, 1}).area() == 0);
}

TEST_CASE(
    "the interval holds its estimate, narrows with samples, and holds the truth about as often as it says") {
  const auto width = [](size_t n) {
    const Drawn d = draw(n, 0.5, 3);
    const auto i = Auc(d.scores, d.labels).interval();
    CHECK(i.low < i.estimate);
    CHECK(i.estimate < i.high);
    return i.high - i.low;
  };
  CHECK(width(2000) < 0.6 * width(200));
  const Drawn all = draw(20000, 0.5, 99);
  const double truth = Auc(all.scores, all.labels).area();
  int held = 0;
  for (uint64_t seed = 100; seed < 200; ++seed) {
    const Drawn d = draw(150, 0.5, seed);
    const auto i = Auc(d.scores, d.labels).interval({.draws = 300});
    held += i.low <= truth && truth <= i.high;
  }
  CHECK(held >= 88);  // below it in fewer than one of a hundred runs, were it 95 % exactly
  const auto perfect = Auc({1, 2, 3, 4}, {0, 0, 1, 1}).interval();
  CHECK(perfect.low == 1);
}

TEST_CASE("one kind alone, or a score too few") {
  CHECK_THROWS_AS(Auc({1, 2}, {1, 1}), std::invalid_argument);
  CHECK_THROWS_AS(Auc({1, 2}, {0, 0}), std::invalid_argument);
  CHECK_THROWS_AS(Auc({1}, {0, 1}), std::invalid_argument);
}
