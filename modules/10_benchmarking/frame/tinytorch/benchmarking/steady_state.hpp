// Tests if a series of timings has settled or still drifts.
//
// The frame of a course header: it has the given parts, and includes the functions of task 10.5. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <tinytorch/benchmarking/hypothesis.hpp>
#include <tinytorch/benchmarking/samples.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::statistics {

inline bool medians_agree(double previous, double current, double tolerance = 0.01);  // task 10.5
inline std::optional<size_t> settled_after(Samples samples, size_t window = 5, double tolerance = 0.01,
                                           Loc loc = Loc::current());  // task 10.5

namespace detail {

inline double count_descents(std::span<double> x);  // task 10.5

// The probability of each number of descending pairs in a random order of n distinct samples: before the last
// of k samples there are 0 .. k-1 larger ones, all equally likely.
inline std::vector<double> descents_null(size_t n) {
  std::vector<double> probability{1};
  for (size_t k = 2; k <= n; ++k) {
    std::vector<double> next(probability.size() + k - 1, 0.0);
    for (size_t d = 0; d < probability.size(); ++d)
      for (size_t more = 0; more < k; ++more) next[d + more] += probability[d] / static_cast<double>(k);
    probability = std::move(next);
  }
  return probability;
}

}  // namespace detail

// Mann-Kendall's test for a trend over time; kGreater: rising. The statistic S is the number of rising pairs
// minus that of falling pairs. Exact for up to 50 distinct samples, else a normal approximation with
// corrections for ties and continuity.
inline TestResult mann_kendall(Samples series, Alternative alternative = Alternative::kTwoSided,
                               Loc loc = Loc::current()) {
  require_samples("mann_kendall", series, loc);
  const auto n = static_cast<double>(series.size());
  auto sorted = detail::copy(series);
  const double falling = detail::count_descents(sorted);
  double equal_pairs = 0, tie_variance = 0;
  for (size_t start = 0, end = 0; start < sorted.size(); start = end) {
    while (end < sorted.size() && sorted[end] == sorted[start]) ++end;
    const auto t = static_cast<double>(end - start);
    equal_pairs += t * (t - 1) / 2;
    tie_variance += t * (t - 1) * (2 * t + 5);
  }
  const double pairs = n * (n - 1) / 2, s = pairs - equal_pairs - 2 * falling;
  if (equal_pairs == 0 && series.size() <= 50) {
    const auto null =
        detail::descents_null(series.size());  // symmetric: rising pairs have the same distribution
    return {s, detail::p_of(alternative, null, static_cast<size_t>(pairs - falling))};
  }
  // S has steps of 2 if no samples are equal.
  return {s, detail::normal_p(alternative, s, 0, (n * (n - 1) * (2 * n + 5) - tie_variance) / 18, 1)};
}

struct TrendOptions {
  double significance = 0.01;  // the two-sided p must be below this
  double tolerance = 0.01;     // and the median must have moved by more than this fraction
};

struct Trend {
  double change = 0;  // median of the last third / median of the first third - 1
  double p = 1;
  bool present = false;
};

// Task 10.5.
inline Trend remaining_trend(Samples series, const TrendOptions& options = {}, Loc loc = Loc::current());

struct SteadyState {
  std::optional<size_t> warm_up;  // number of samples of the warm-up; empty: the rule was never met
  Trend trend;                    // trend of the samples after the warm-up
  bool steady = false;            // warm-up is over and no trend remains
};

inline SteadyState steady_state(Samples series, size_t window = 5, const TrendOptions& options = {},
                                Loc loc = Loc::current());  // task 10.5

}  // namespace tinytorch::inline TT_BUILD::statistics

#include <tasks/benchmarking/steady_state.hpp>
