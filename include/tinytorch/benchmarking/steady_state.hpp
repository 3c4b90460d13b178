// Tests if a series of timings has settled or still drifts.
//
// Two tests are needed. The warm-up is over once the medians of two consecutive windows differ by at most 1 %
// (this project's rule). A slow drift passes that rule, so the rest is tested for a trend by Mann-Kendall's
// test (Mann 1945, Kendall 1975), which counts rising pairs and assumes no distribution of the noise and no
// shape of the trend. A trend counts only if it also moves the median from the first third to the last by
// more than 1 %. The test assumes independent samples: other work that disturbs 6 consecutive samples at a
// time, a fifth of the time, raises the false alarms from 1 to 18 % for series of 60. In that case, use
// medians of windows longer than such bursts as the samples.
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

// The warm-up rule. False if `previous` is not above 0, which means that there was no previous window.
inline bool medians_agree(double previous, double current, double tolerance = 0.01) {
  return previous > 0 && std::abs(current - previous) <= tolerance * previous;
}

// The number of samples of the warm-up: the end of the first window whose median agrees with that of the
// previous window. Empty if there is none.
inline std::optional<size_t> settled_after(Samples samples, size_t window = 5, double tolerance = 0.01,
                                           Loc loc = Loc::current()) {
  require_samples("settled_after", samples, loc);
  require_in_range("settled_after", "window", static_cast<double>(window), 1, 1e15, loc);
  double previous = 0;
  for (size_t start = 0; start + window <= samples.size(); start += window) {
    const double current = median(samples.subspan(start, window), loc);
    if (medians_agree(previous, current, tolerance)) return start + window;
    previous = current;
  }
  return std::nullopt;
}

namespace detail {

// The number of pairs i < j with x[i] > x[j]; sorts x (merge sort, O(n log n)).
inline double count_descents(std::span<double> x) {
  if (x.size() < 2) return 0;
  const auto left = x.first(x.size() / 2), right = x.subspan(x.size() / 2);
  double count = count_descents(left) + count_descents(right);
  auto r = right.begin();
  for (const double l : left) {
    while (r != right.end() && *r < l) ++r;
    count += static_cast<double>(r - right.begin());
  }
  std::inplace_merge(x.begin(), right.begin(), x.end());
  return count;
}

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

// Tests for a trend in timings > 0. In independent noise the rate of false alarms is at most `significance`.
// In 60 samples with noise of standard deviation s it detects a drift of 2 s from end to end, or a step of
// 1.5 s in the middle, in 19 of 20 series.
inline Trend remaining_trend(Samples series, const TrendOptions& options = {}, Loc loc = Loc::current()) {
  require_positive("remaining_trend", series, loc);
  const size_t third = std::max<size_t>(1, series.size() / 3);
  Trend trend;
  trend.change = median(series.last(third), loc) / median(series.first(third), loc) - 1;
  trend.p = mann_kendall(series, Alternative::kTwoSided, loc).p;
  trend.present = trend.p < options.significance && std::abs(trend.change) > options.tolerance;
  return trend;
}

struct SteadyState {
  std::optional<size_t> warm_up;  // number of samples of the warm-up; empty: the rule was never met
  Trend trend;                    // trend of the samples after the warm-up
  bool steady = false;            // warm-up is over and no trend remains
};

// Timings > 0 in order of measurement. Fewer than 6 samples after the warm-up cannot show a trend at 1 %, so
// such a series is not called steady.
inline SteadyState steady_state(Samples series, size_t window = 5, const TrendOptions& options = {},
                                Loc loc = Loc::current()) {
  require_positive("steady_state", series, loc);
  SteadyState state;
  state.warm_up = settled_after(series, window, options.tolerance, loc);
  if (!state.warm_up || series.size() - *state.warm_up < 6) return state;
  state.trend = remaining_trend(series.subspan(*state.warm_up), options, loc);
  state.steady = !state.trend.present;
  return state;
}

}  // namespace tinytorch::inline TT_BUILD::statistics
