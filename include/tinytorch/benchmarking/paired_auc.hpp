// Do scores tell two kinds apart as well as another's scores of the same samples do? DeLong's paired
// comparison of areas under the ROC curve.
//
// The area is the share of pairs, one sample of each kind, that the scores put the right way around. A
// sample's placement is this share among its own pairs, so that the area is the mean of the placements of
// either kind. The variance of a mean of differences of placements, of one kind and of the other, adds up to
// that of the difference of the areas (DeLong, DeLong and Clarke-Pearson 1988): what is hard for both
// cancels, no draws are needed, and the work is that of sorting.
//
// Placements are kept as whole quarters of won pairs, which are exact and add up to the same over either
// kind.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <tinytorch/benchmarking/distributions.hpp>
#include <tinytorch/benchmarking/samples.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::statistics {

// Of each sample, in the order given, within its kind: its pairs that are the right way around, four for
// each, and two where both scores count as equal.
struct PairWins {
  std::vector<int64_t> positives, negatives;
  friend bool operator==(const PairWins&, const PairWins&) = default;
};

// labels: not 0 for positives, which score higher. Scores that differ by less than `margin` count as equal,
// by as much as it three of four; one that is not finite is on the wrong side of all others. Throws
// TT-STAT-01 unless there are both kinds, TT-STAT-05 unless there is a label for each score.
inline PairWins pair_wins(std::span<const double> scores, std::span<const int64_t> labels, double margin = 0,
                          Loc loc = Loc::current()) {
  if (scores.size() != labels.size())
    fail("TT-STAT-05",
         "pair_wins: " + std::to_string(scores.size()) + " scores for " + std::to_string(labels.size()) +
             " labels\n  hint: give one label for each score",
         loc);
  std::vector<double> high, low;  // of positives, of negatives
  for (size_t i = 0; i < scores.size(); ++i) {
    const bool known = std::isfinite(scores[i]);
    if (labels[i] != 0)
      high.push_back(known ? scores[i] : -INFINITY);
    else
      low.push_back(known ? scores[i] : INFINITY);
  }
  if (high.empty() || low.empty())
    fail("TT-STAT-01",
         "pair_wins: samples of one kind alone have no pairs\n  hint: give positives (label not 0) and "
         "negatives",
         loc);
  PairWins out{std::vector<int64_t>(high.size()), std::vector<int64_t>(low.size())};
  std::vector<double> sorted_low = low;
  std::ranges::sort(sorted_low);
  // As if all positives were lowered by the margin, and raised by it: two for a win, one for a tie in each.
  for (const double shift : {-margin, margin}) {
    std::vector<double> moved = high;
    for (double& x : moved) x += shift;
    for (size_t i = 0; i < moved.size(); ++i) {
      const auto [first, last] = std::equal_range(sorted_low.begin(), sorted_low.end(), moved[i]);
      out.positives[i] += (first - sorted_low.begin()) + (last - sorted_low.begin());
    }
    std::ranges::sort(moved);
    for (size_t i = 0; i < low.size(); ++i) {
      const auto [first, last] = std::equal_range(moved.begin(), moved.end(), low[i]);
      out.negatives[i] += (moved.end() - first) + (moved.end() - last);
    }
  }
  return out;
}

// The area under the ROC curve.
inline double auc_of(const PairWins& wins) {
  const double pairs =
      static_cast<double>(wins.positives.size()) * static_cast<double>(wins.negatives.size());
  return static_cast<double>(std::accumulate(wins.positives.begin(), wins.positives.end(), int64_t{0})) /
         (4 * pairs);
}

namespace detail {
// Of the mean of (a - weight * b) / (4 * others). Of one sample alone nothing is known.
inline double variance_of_mean(std::span<const int64_t> a, std::span<const int64_t> b, double weight,
                               size_t others) {
  std::vector<double> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i)
    difference[i] =
        (static_cast<double>(a[i]) - weight * static_cast<double>(b[i])) / (4 * static_cast<double>(others));
  const auto n = static_cast<double>(a.size());
  const double center = std::accumulate(difference.begin(), difference.end(), 0.0) / n;
  double squares = 0;
  for (const double x : difference) squares += (x - center) * (x - center);
  return squares / (n - 1) / n;
}
}  // namespace detail

// auc(a) - weight * auc(b) with its interval; both scored the same samples, which must be at least two of
// each kind. It is normal for many samples: 95 % means 93 to 97 % from 50 of each kind on, for areas up to
// 0.95. Where all pairs of both are the right way around it has next to no width: more samples are needed to
// see what they would get wrong.
inline Interval paired_auc_difference(const PairWins& a, const PairWins& b, double weight = 1,
                                      double confidence = 0.95, Loc loc = Loc::current()) {
  require_in_range("paired_auc_difference", "confidence", confidence, 0, 0.999999, loc);
  const size_t positives = a.positives.size(), negatives = a.negatives.size();
  if (positives != b.positives.size() || negatives != b.negatives.size())
    fail("TT-STAT-05", "paired_auc_difference: areas of other samples\n  hint: both must score the same ones",
         loc);
  require_in_range("paired_auc_difference", "samples of the rarer kind",
                   static_cast<double>(std::min(positives, negatives)), 2, 1e9, loc);
  const double estimate = auc_of(a) - weight * auc_of(b);
  const double variance = detail::variance_of_mean(a.positives, b.positives, weight, negatives) +
                          detail::variance_of_mean(a.negatives, b.negatives, weight, positives);
  const double half = normal_quantile((1 + confidence) / 2) * std::sqrt(variance);
  return {estimate, estimate - half, estimate + half};
}

// One-sided: the truth is above it with this confidence.
inline double paired_auc_lower_bound(const PairWins& a, const PairWins& b, double weight = 1,
                                     double confidence = 0.95, Loc loc = Loc::current()) {
  require_in_range("paired_auc_lower_bound", "confidence", confidence, 0.5, 0.999999, loc);
  return paired_auc_difference(a, b, weight, 2 * confidence - 1, loc).low;
}

}  // namespace tinytorch::inline TT_BUILD::statistics
