// Distribution-free bounds of a percentile: order statistics and exact binomial tails.
//
// The frame of a course header: it has the given parts, and includes the functions of task 10.2. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <tinytorch/benchmarking/distributions.hpp>
#include <tinytorch/benchmarking/samples.hpp>

namespace tinytorch::inline TT_BUILD::statistics {

// Task 10.2.
inline int64_t samples_to_certify(double percent, double confidence = 0.99, Loc loc = Loc::current());
inline std::optional<int64_t> upper_bound_rank(double percent, int64_t n, double confidence = 0.99,
                                               Loc loc = Loc::current());  // task 10.2
inline std::optional<double> percentile_upper_bound(Samples samples, double percent, double confidence = 0.99,
                                                    Loc loc = Loc::current());  // task 10.2

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

#include <tasks/benchmarking/percentile_bound.hpp>
