// Hypothesis tests: p-values of Mann-Whitney, the signed-rank test and Welch's t test.
//
// p is the probability, if there is no difference, of data at least as extreme in the tested direction. Rank
// tests assume no distribution of the noise: Mann-Whitney for two independent sets, signed ranks for pairs.
// Their null distributions are exact up to the sizes given below. Beyond them, and for ties in Mann-Whitney,
// they are approximated by the normal distribution with corrections for ties and continuity. Welch's t
// compares means and assumes that these are approximately normal.
// Sources: Mann and Whitney 1947, Wilcoxon 1945, Welch 1947; Lehmann, "Nonparametrics", for the corrections.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <tinytorch/benchmarking/distributions.hpp>
#include <tinytorch/benchmarking/samples.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::statistics {

// The alternative hypothesis about the first set compared with the second.
enum class Alternative { kTwoSided, kLess, kGreater };

struct TestResult {
  double statistic = 0;  // U, W+, t or S
  double p = 1;
};

namespace detail {

struct Midranks {
  std::vector<double> rank;  // 1-based; equal samples share the mean of their ranks
  double ties = 0;           // sum of t^3 - t over groups of t equal samples
};

inline Midranks midranks(Samples samples) {
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return samples[i] < samples[j]; });
  Midranks out{std::vector<double>(samples.size()), 0};
  for (size_t start = 0, end = 0; start < order.size(); start = end) {
    while (end < order.size() && samples[order[end]] == samples[order[start]]) ++end;
    for (size_t i = start; i < end; ++i) out.rank[order[i]] = static_cast<double>(start + end + 1) / 2;
    const auto t = static_cast<double>(end - start);
    out.ties += t * t * t - t;
  }
  return out;
}

// p from the probabilities of both tails, each of which includes the observed value.
inline double p_of(Alternative alternative, double lower_tail, double upper_tail) {
  if (alternative == Alternative::kLess) return std::min(1.0, lower_tail);
  if (alternative == Alternative::kGreater) return std::min(1.0, upper_tail);
  return std::min(1.0, 2 * std::min(lower_tail, upper_tail));
}

// p from the probability of each integer value of the statistic.
inline double p_of(Alternative alternative, const std::vector<double>& probability, size_t observed) {
  const auto at = probability.begin() + static_cast<std::ptrdiff_t>(observed);
  return p_of(alternative, std::accumulate(probability.begin(), at + 1, 0.0),
              std::accumulate(at, probability.end(), 0.0));
}

// Normal approximation with a continuity correction: half a step of the discrete statistic towards the mean.
inline double normal_p(Alternative alternative, double statistic, double mean, double variance,
                       double half_step) {
  if (variance <= 0) return 1;
  const double sd = std::sqrt(variance);
  return p_of(alternative, normal_tail((mean - statistic - half_step) / sd),
              normal_tail((statistic - mean - half_step) / sd));
}

// The probability of each sum of a random subset of the given integer weights, each of which is included with
// probability 1/2.
inline std::vector<double> random_subset_sum(const std::vector<size_t>& weights) {
  std::vector<double> probability(std::accumulate(weights.begin(), weights.end(), size_t{1}), 0.0);
  probability[0] = 1;
  size_t reached = 0;
  for (const size_t w : weights) {
    reached += w;
    for (size_t sum = reached + 1; sum-- > 0;)
      probability[sum] = (probability[sum] + (sum >= w ? probability[sum - w] : 0)) / 2;
  }
  return probability;
}

}  // namespace detail

// The null distribution of Mann and Whitney's U: element u of the n * m + 1 is the probability that exactly u
// of the n * m pairs (x of the n samples, y of the m) have x > y, if all orders of n + m distinct samples are
// equally likely. It is symmetric around n * m / 2 and equal for (m, n); if a set is empty, u = 0 has
// probability 1. Recurrence of Mann and Whitney 1947: the largest sample is one of the n with probability n /
// (n + m), and then exceeds all m others; else it is one of the m and adds nothing. The time is of order (n *
// m)^2, the memory of order n * m * min(n, m).
inline std::vector<double> mann_whitney_null(size_t n, size_t m) {
  if (n < m) std::swap(n, m);  // by symmetry; there are as many rows as samples in the smaller set
  std::vector<std::vector<double>> row(m + 1, std::vector<double>(n * m + 1, 0.0));
  for (auto& p : row) p[0] = 1;
  for (size_t i = 1; i <= n; ++i) {
    for (size_t j = 1; j <= m; ++j) {  // row[j] still holds i - 1 of the first set, row[j - 1] has i
      const double first = static_cast<double>(i) / static_cast<double>(i + j);
      for (size_t u = i * j + 1; u-- > 0;)
        row[j][u] = (u >= j ? first * row[j][u - j] : 0) + (1 - first) * row[j - 1][u];
    }
  }
  return row[m];
}

// Mann-Whitney U test of two independent sets: do samples of `a` tend to be less (greater) than those of `b`?
// The statistic U is the number of pairs (x of a, y of b) with x > y, where equal ones count half. Exact if
// no two samples are equal and a.size() * b.size() <= 10,000. Repetitions should come from different
// processes, at least 4 on each side: 3 against 3 cannot give a one-sided p below 0.05.
inline TestResult mann_whitney(Samples a, Samples b, Alternative alternative = Alternative::kTwoSided,
                               Loc loc = Loc::current()) {
  require_samples("mann_whitney", a, loc);
  require_samples("mann_whitney", b, loc);
  auto all = detail::copy(a);
  all.insert(all.end(), b.begin(), b.end());
  const detail::Midranks ranks = detail::midranks(all);
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size()), total = n + m;
  const double rank_sum =
      std::accumulate(ranks.rank.begin(), ranks.rank.begin() + static_cast<std::ptrdiff_t>(a.size()), 0.0);
  const double u = rank_sum - n * (n + 1) / 2;
  if (ranks.ties == 0 && n * m <= 10000)
    return {u, detail::p_of(alternative, mann_whitney_null(a.size(), b.size()), static_cast<size_t>(u))};
  const double variance = n * m / 12 * (total + 1 - ranks.ties / (total * (total - 1)));
  return {u, detail::normal_p(alternative, u, n * m / 2, variance, 0.5)};
}

// Wilcoxon's signed-rank test of paired differences: do they tend to be less (greater) than 0? The statistic
// W+ is the sum of the ranks, by absolute value, of the positive ones. Differences of 0 are ignored; if no
// others exist, p = 1. Exact given the absolute values, including ties, for up to 200 differences. At least 7
// are needed for a one-sided p < 0.01. The only assumption is that without an effect each difference has
// either sign with probability 1/2, which a random order of the two turns ensures (schedule.hpp).
inline TestResult signed_rank(Samples differences, Alternative alternative = Alternative::kTwoSided,
                              Loc loc = Loc::current()) {
  require_samples("signed_rank", differences, loc);
  std::vector<double> kept, sizes;
  for (const double d : differences)
    if (d != 0) {
      kept.push_back(d);
      sizes.push_back(std::abs(d));
    }
  if (kept.empty()) return {0, 1};
  const detail::Midranks ranks = detail::midranks(sizes);
  std::vector<size_t> doubled;  // midranks are multiples of 1/2
  double w = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    doubled.push_back(static_cast<size_t>(2 * ranks.rank[i]));
    if (kept[i] > 0) w += ranks.rank[i];
  }
  if (kept.size() <= 200)
    return {w, detail::p_of(alternative, detail::random_subset_sum(doubled), static_cast<size_t>(2 * w))};
  const auto n = static_cast<double>(kept.size());
  const double variance = n * (n + 1) * (2 * n + 1) / 24 - ranks.ties / 48;
  return {w, detail::normal_p(alternative, w, n * (n + 1) / 4, variance, 0.5)};
}

// Welch's t test of two means with possibly different variances; at least 2 samples each. The statistic t is
// the difference of the means in units of its standard error. Throws TT-STAT-06 if all samples of each set
// are equal, because the standard error is then 0.
inline TestResult welch_t(Samples a, Samples b, Alternative alternative = Alternative::kTwoSided,
                          Loc loc = Loc::current()) {
  for (const Samples samples : {a, b}) {
    require_samples("welch_t", samples, loc);
    require_in_range("welch_t", "number of samples", static_cast<double>(samples.size()), 2, 1e15, loc);
  }
  const auto squared_error = [&](Samples samples) {  // of the mean
    const double center = mean(samples, loc);
    double sum = 0;
    for (const double x : samples) sum += (x - center) * (x - center);
    const auto n = static_cast<double>(samples.size());
    return sum / (n - 1) / n;
  };
  const double va = squared_error(a), vb = squared_error(b);
  if (va + vb <= 0)
    fail(
        "TT-STAT-06",
        "welch_t: all samples of a set are equal, in both sets\n  hint: a clock this coarse hides the noise; "
        "measure more calls at once",
        loc);
  const double t = (mean(a, loc) - mean(b, loc)) / std::sqrt(va + vb);
  const double degrees =
      (va + vb) * (va + vb) /
      (va * va / static_cast<double>(a.size() - 1) + vb * vb / static_cast<double>(b.size() - 1));
  return {t, detail::p_of(alternative, student_t_tail(-t, degrees), student_t_tail(t, degrees))};
}

}  // namespace tinytorch::inline TT_BUILD::statistics
