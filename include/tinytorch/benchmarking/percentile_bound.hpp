// Distribution-free bounds of a percentile: order statistics and exact binomial tails.
//
// If n samples are independent, the number of them above the true q-quantile is Binomial(n, 1 - q), whatever
// their distribution (at most that, if samples can be equal). So the t-th highest sample is below the
// quantile only if fewer than t samples are above it, and P(X <= t - 1) is the risk of reporting it as an
// upper bound. MLPerf's "early stopping" rule ends a run once such a bound exists (Reddi et al., "MLPerf
// Inference Benchmark", ISCA 2020); LoadGen reports one rank more than needed, the (t-1)-th highest.
// Two-sided intervals: Conover, "Practical Nonparametric Statistics", 3.2.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <tinytorch/benchmarking/distributions.hpp>
#include <tinytorch/benchmarking/samples.hpp>

namespace tinytorch::inline TT_BUILD::statistics {

// The smallest number of samples for which the second-largest one is an upper bound of the true percentile
// with the given confidence: the smallest n with q^n + n q^(n-1) (1-q) <= 1 - confidence. Fewer samples do
// not support that percentile.
inline int64_t samples_to_certify(double percent, double confidence = 0.99, Loc loc = Loc::current()) {
  require_in_range("samples_to_certify", "percent", percent, 0, 99.9999, loc);
  require_in_range("samples_to_certify", "confidence", confidence, 0, 0.999999, loc);
  const double q = percent / 100;
  for (int64_t n = 2;; ++n) {
    const auto x = static_cast<double>(n);
    if (std::pow(q, x) + x * std::pow(q, x - 1) * (1 - q) <= 1 - confidence) return n;
  }
}

// The largest t for which the t-th highest of n samples is an upper bound of the percentile with the given
// confidence. Empty if t would be below 2, because the maximum depends on one call alone.
inline std::optional<int64_t> upper_bound_rank(double percent, int64_t n, double confidence = 0.99,
                                               Loc loc = Loc::current()) {
  require_in_range("upper_bound_rank", "percent", percent, 0, 99.9999, loc);
  require_in_range("upper_bound_rank", "confidence", confidence, 0, 0.999999, loc);
  const double above = 1 - percent / 100;
  const auto holds = [&](int64_t t) { return binomial_cdf(t - 1, n, above) <= 1 - confidence; };
  if (n < 2 || !holds(2)) return std::nullopt;
  int64_t good = 2, bad = n + 1;  // binomial_cdf(n, n, .) is 1
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (holds(middle) ? good : bad) = middle;
  }
  return good;
}

// The sample that the true percentile does not exceed with the given confidence. Empty for fewer than
// samples_to_certify(percent, confidence) samples. For a confidence above 50 % it is at least percentile().
inline std::optional<double> percentile_upper_bound(Samples samples, double percent, double confidence = 0.99,
                                                    Loc loc = Loc::current()) {
  require_samples("percentile_upper_bound", samples, loc);
  const auto t = upper_bound_rank(percent, static_cast<int64_t>(samples.size()), confidence, loc);
  if (!t) return std::nullopt;
  auto values = detail::copy(samples);
  return detail::select(values, samples.size() - static_cast<size_t>(*t));
}

// Ranks (1-based, from the lowest) of the order statistics that enclose a percentile.
struct RankInterval {
  int64_t low = 0, high = 0;
};

// The narrowest ranks with a risk of at most (1 - confidence) / 2 on each side; empty if n is too small.
inline std::optional<RankInterval> interval_ranks(double percent, int64_t n, double confidence = 0.95,
                                                  Loc loc = Loc::current()) {
  require_in_range("interval_ranks", "percent", percent, 0, 100, loc);
  require_in_range("interval_ranks", "confidence", confidence, 0, 0.999999, loc);
  const double q = percent / 100, risk = (1 - confidence) / 2;
  // The low-th sample is above the quantile if fewer than `low` samples are at most the quantile; the high-th
  // is below it if fewer than n - high + 1 are above. Both are the same question by symmetry.
  const auto deepest = [&](double share) {
    int64_t good = 0, bad = n + 1;
    while (bad - good > 1) {
      const int64_t middle = good + (bad - good) / 2;
      (binomial_cdf(middle - 1, n, share) <= risk ? good : bad) = middle;
    }
    return good;
  };
  const int64_t low = deepest(q), from_top = deepest(1 - q);
  if (low < 1 || from_top < 1) return std::nullopt;
  return RankInterval{low, n + 1 - from_top};
}

// Distribution-free interval of a percentile around its nearest-rank estimate; both bounds are samples. Empty
// if there are too few samples: 6 are needed for a median at 95 %, 36 for a p90. The coverage is at least the
// confidence.
inline std::optional<Interval> percentile_rank_interval(Samples samples, double percent,
                                                        double confidence = 0.95, Loc loc = Loc::current()) {
  require_samples("percentile_rank_interval", samples, loc);
  const auto ranks = interval_ranks(percent, static_cast<int64_t>(samples.size()), confidence, loc);
  if (!ranks) return std::nullopt;
  auto values = detail::copy(samples);
  const double estimate = detail::percentile_in_place(values, percent);
  const double low = detail::select(values, static_cast<size_t>(ranks->low) - 1);
  return Interval{estimate, low, detail::select(values, static_cast<size_t>(ranks->high) - 1)};
}

}  // namespace tinytorch::inline TT_BUILD::statistics
