// Statistics of measurements: percentiles, bootstrap intervals, outlier labels, shared ranks, Pareto front.
//
// Plain double arithmetic on finite samples; every function throws TT-STAT-01 on an empty or non-finite
// input. Random resampling draws from Philox, so an interval is a pure function of (samples, options): same
// bits anywhere. Intervals are percentile bootstraps (Efron 1979) because latencies are skewed and
// percentiles have no simple standard error. Outliers are labelled, never dropped: a slow call is a fact
// about the program.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <tinytorch/core/error.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::statistics {

using Samples = std::span<const double>;

// A point estimate with the bounds of its confidence interval: low <= high, same unit as the samples.
struct Interval {
  double estimate = 0;
  double low = 0;
  double high = 0;
};

struct BootstrapOptions {
  int64_t draws = 10000;     // resamples; Monte Carlo error of a bound shrinks with its square root
  double confidence = 0.95;  // share of repetitions of the whole experiment whose interval holds the truth
  uint64_t seed = 0;
};

// ---- checks
// -------------------------------------------------------------------------------------------------

inline void require_samples(const char* function, Samples samples, Loc loc) {
  if (samples.empty())
    fail("TT-STAT-01",
         std::string(function) + ": no samples\n  hint: measure at least once before summarizing", loc);
  for (size_t i = 0; i < samples.size(); ++i)
    if (!std::isfinite(samples[i]))
      fail("TT-STAT-01",
           std::string(function) + ": sample " + std::to_string(i) +
               " is not finite\n  hint: find out which " +
               "measurement gave NaN or infinity; it must not be averaged away",
           loc);
}

inline void require_positive(const char* function, Samples samples, Loc loc) {
  require_samples(function, samples, loc);
  for (size_t i = 0; i < samples.size(); ++i)
    if (samples[i] <= 0)
      fail("TT-STAT-02",
           std::string(function) + ": sample " + std::to_string(i) + " is " + std::to_string(samples[i]) +
               ", must be > 0\n  hint: ratios and geometric means need positive quantities such as seconds "
               "or bytes",
           loc);
}

inline void require_in_range(const char* function, const char* name, double value, double low, double high,
                             Loc loc) {
  if (!(value >= low && value <= high))
    fail("TT-STAT-03",
         std::string(function) + ": " + name + " is " + std::to_string(value) + ", must lie in [" +
             std::to_string(low) + ", " + std::to_string(high) + "]",
         loc);
}

// ---- location and spread
// ------------------------------------------------------------------------------------

// Rank (1-based) of the nearest-rank percentile among n samples: ceil(percent * n / 100), at least 1.
inline size_t nearest_rank(double percent, size_t n) {
  // percent * n is exact for the percentages in use; the slack keeps 99.9 % of 1000 from becoming rank 1000.
  const double rank = std::ceil(percent * static_cast<double>(n) / 100.0 - 1e-9);
  return std::clamp(static_cast<size_t>(std::max(rank, 1.0)), size_t{1}, n);
}

namespace detail {
// The k-th smallest (0-based) in linear time; reorders its argument.
inline double select(std::span<double> values, size_t k) {
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(k);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}
inline double median_in_place(std::span<double> values) {
  const size_t half = values.size() / 2;
  const double upper = select(values, half);
  if (values.size() % 2 == 1) return upper;
  return std::midpoint(*std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half)),
                       upper);
}
inline double percentile_in_place(std::span<double> values, double percent) {
  return select(values, nearest_rank(percent, values.size()) - 1);
}
inline std::vector<double> copy(Samples samples) { return {samples.begin(), samples.end()}; }
}  // namespace detail

// Smallest sample that at least `percent` % of the samples do not exceed. Always one of the samples, never an
// interpolation, so a reported p90 is a call that happened. percent in [0, 100]; 0 gives the minimum.
inline double percentile(Samples samples, double percent, Loc loc = Loc::current()) {
  require_samples("percentile", samples, loc);
  require_in_range("percentile", "percent", percent, 0, 100, loc);
  auto values = detail::copy(samples);
  return detail::percentile_in_place(values, percent);
}

// Middle sample, or the mean of the two middle ones.
inline double median(Samples samples, Loc loc = Loc::current()) {
  require_samples("median", samples, loc);
  auto values = detail::copy(samples);
  return detail::median_in_place(values);
}

inline double mean(Samples samples, Loc loc = Loc::current()) {
  require_samples("mean", samples, loc);
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

// exp(mean(log x)): the only mean of ratios that does not depend on which side is the baseline.
inline double geometric_mean(Samples samples, Loc loc = Loc::current()) {
  require_positive("geometric_mean", samples, loc);
  double log_sum = 0;
  for (const double x : samples) log_sum += std::log(x);
  return std::exp(log_sum / static_cast<double>(samples.size()));
}

// median(|x - median(x)|), unscaled. For normal data multiply by 1.4826 to estimate the standard deviation.
inline double median_absolute_deviation(Samples samples, Loc loc = Loc::current()) {
  const double center = median(samples, loc);
  auto values = detail::copy(samples);
  for (double& x : values) x = std::abs(x - center);
  return detail::median_in_place(values);
}

// Quantile with linear interpolation between order statistics (Hyndman and Fan 1996, type 7), q in [0, 1].
inline double quantile_linear(Samples samples, double q, Loc loc = Loc::current()) {
  require_samples("quantile_linear", samples, loc);
  require_in_range("quantile_linear", "q", q, 0, 1, loc);
  auto values = detail::copy(samples);
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], position - static_cast<double>(below));
}

// ---- outliers
// -----------------------------------------------------------------------------------------------

enum class Outlier { kLowSevere, kLowMild, kNone, kHighMild, kHighSevere };

// Tukey's fences (1977): mild beyond 1.5 interquartile ranges from the nearer quartile, severe beyond 3.
struct Fences {
  double low_severe = 0, low_mild = 0, high_mild = 0, high_severe = 0;
  Outlier label(double x) const {
    if (x < low_severe) return Outlier::kLowSevere;
    if (x < low_mild) return Outlier::kLowMild;
    if (x > high_severe) return Outlier::kHighSevere;
    if (x > high_mild) return Outlier::kHighMild;
    return Outlier::kNone;
  }
};

inline Fences outlier_fences(Samples samples, Loc loc = Loc::current()) {
  const double q1 = quantile_linear(samples, 0.25, loc), q3 = quantile_linear(samples, 0.75, loc);
  const double range = q3 - q1;
  return {q1 - 3 * range, q1 - 1.5 * range, q3 + 1.5 * range, q3 + 3 * range};
}

// One label per sample, in the samples' order.
inline std::vector<Outlier> label_outliers(Samples samples, Loc loc = Loc::current()) {
  const Fences fences = outlier_fences(samples, loc);
  std::vector<Outlier> labels;
  labels.reserve(samples.size());
  for (const double x : samples) labels.push_back(fences.label(x));
  return labels;
}

// ---- bootstrap
// ----------------------------------------------------------------------------------------------

// Fills `out` with samples drawn with replacement.
inline void resample(Samples samples, std::span<double> out, Generator& random) {
  for (double& x : out) x = samples[random.below(samples.size())];
}

// The interval that replicates of a statistic span: their nearest-rank percentiles at both tails. Reorders
// them.
inline Interval percentile_interval(double estimate, std::span<double> replicates, double confidence = 0.95,
                                    Loc loc = Loc::current()) {
  require_samples("percentile_interval", replicates, loc);
  require_in_range("percentile_interval", "confidence", confidence, 0, 1, loc);
  const double tail = 50 * (1 - confidence);
  const double low = detail::percentile_in_place(replicates, tail);
  return {estimate, low, detail::percentile_in_place(replicates, 100 - tail)};
}

// The general form: `replicate(Generator&)` redoes the experiment once on resampled data and returns the
// statistic.
template <class Replicate>
Interval bootstrap(double estimate, Replicate&& replicate, const BootstrapOptions& options = {},
                   Loc loc = Loc::current()) {
  require_in_range("bootstrap", "draws", static_cast<double>(options.draws), 1, 1e9, loc);
  Generator random(options.seed);
  std::vector<double> replicates(static_cast<size_t>(options.draws));
  for (double& x : replicates) x = replicate(random);
  return percentile_interval(estimate, replicates, options.confidence, loc);
}

inline Interval bootstrap_median(Samples samples, const BootstrapOptions& options = {},
                                 Loc loc = Loc::current()) {
  require_samples("bootstrap_median", samples, loc);
  std::vector<double> drawn(samples.size());
  return bootstrap(
      median(samples, loc),
      [&](Generator& random) {
        resample(samples, drawn, random);
        return detail::median_in_place(drawn);
      },
      options, loc);
}

inline Interval bootstrap_mean(Samples samples, const BootstrapOptions& options = {},
                               Loc loc = Loc::current()) {
  require_samples("bootstrap_mean", samples, loc);
  std::vector<double> drawn(samples.size());
  return bootstrap(
      mean(samples, loc),
      [&](Generator& random) {
        resample(samples, drawn, random);
        return std::accumulate(drawn.begin(), drawn.end(), 0.0) / static_cast<double>(drawn.size());
      },
      options, loc);
}

// median(numerator) / median(denominator) of two independent sets; all samples > 0. Above 1: the numerator is
// larger.
inline Interval bootstrap_ratio_of_medians(Samples numerator, Samples denominator,
                                           const BootstrapOptions& options = {}, Loc loc = Loc::current()) {
  require_positive("bootstrap_ratio_of_medians", numerator, loc);
  require_positive("bootstrap_ratio_of_medians", denominator, loc);
  std::vector<double> above(numerator.size()), below(denominator.size());
  return bootstrap(
      median(numerator, loc) / median(denominator, loc),
      [&](Generator& random) {
        resample(numerator, above, random);
        resample(denominator, below, random);
        return detail::median_in_place(above) / detail::median_in_place(below);
      },
      options, loc);
}

// Percentile bootstrap of a share such as an accuracy. Resampling k hits among n is Binomial(n, k/n), so its
// percentiles are computed exactly and need no draws. At k = 0 or n the interval has no width: the sample
// holds no evidence about the other outcome, use wilson_interval there.
inline Interval bootstrap_proportion(int64_t hits, int64_t trials, double confidence = 0.95,
                                     Loc loc = Loc::current()) {
  require_in_range("bootstrap_proportion", "trials", static_cast<double>(trials), 1, 1e9, loc);
  require_in_range("bootstrap_proportion", "hits", static_cast<double>(hits), 0, static_cast<double>(trials),
                   loc);
  require_in_range("bootstrap_proportion", "confidence", confidence, 0, 1, loc);
  const auto n = static_cast<double>(trials);
  const double p = static_cast<double>(hits) / n;
  if (hits == 0 || hits == trials) return {p, p, p};
  const double tail = (1 - confidence) / 2;
  double cumulative = 0, low = -1, high = 1;
  for (int64_t k = 0; k <= trials; ++k) {
    const auto x = static_cast<double>(k);
    cumulative += std::exp(std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) +
                           x * std::log(p) + (n - x) * std::log1p(-p));
    if (low < 0 && cumulative >= tail) low = x / n;
    if (cumulative >= 1 - tail) {
      high = x / n;
      break;
    }
  }
  return {p, std::max(low, 0.0), high};
}

// Wilson's score interval (1927) of a share; z is the normal quantile, 1.959964 for 95 %. Keeps a width at 0
// and 1.
inline Interval wilson_interval(int64_t hits, int64_t trials, double z = 1.959963984540054,
                                Loc loc = Loc::current()) {
  require_in_range("wilson_interval", "trials", static_cast<double>(trials), 1, 1e15, loc);
  require_in_range("wilson_interval", "hits", static_cast<double>(hits), 0, static_cast<double>(trials), loc);
  const auto n = static_cast<double>(trials);
  const double p = static_cast<double>(hits) / n, scale = 1 / (1 + z * z / n);
  const double center = scale * (p + z * z / (2 * n));
  const double half = scale * z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {p, std::max(0.0, center - half), std::min(1.0, center + half)};
}

// Fewest samples after which the second-largest one bounds the true percentile with the given confidence:
// smallest n with q^n + n q^(n-1) (1-q) <= 1 - confidence. Fewer samples do not support that percentile.
inline int64_t samples_to_certify(double percent, double confidence = 0.99, Loc loc = Loc::current()) {
  require_in_range("samples_to_certify", "percent", percent, 0, 99.9999, loc);
  require_in_range("samples_to_certify", "confidence", confidence, 0, 0.999999, loc);
  const double q = percent / 100;
  for (int64_t n = 2;; ++n) {
    const auto x = static_cast<double>(n);
    if (std::pow(q, x) + x * std::pow(q, x - 1) * (1 - q) <= 1 - confidence) return n;
  }
}

// ---- comparing
// ----------------------------------------------------------------------------------------------

struct Rank {
  size_t index = 0;  // into the given intervals
  int64_t rank = 0;  // 1 is best; 1 1 3 when the first two are tied
};

// Higher is better. Sorted by the lower bound, so a noisy result cannot buy a rank with a wide interval; an
// entry shares the rank of the group's first one when their intervals overlap (touching counts).
inline std::vector<Rank> rank_with_ties(std::span<const Interval> intervals) {
  std::vector<Rank> order(intervals.size());
  for (size_t i = 0; i < order.size(); ++i) order[i].index = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](Rank a, Rank b) { return intervals[a.index].low > intervals[b.index].low; });
  size_t leader = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (intervals[order[i].index].high < intervals[order[leader].index].low) leader = i;
    order[i].rank = static_cast<int64_t>(leader) + 1;
  }
  return order;
}

// Indices, ascending, of the points that no other point dominates. One row per point, lower is better in
// every column (negate what should be high). Equal points do not dominate each other, so duplicates stay
// together.
inline std::vector<size_t> pareto_front(std::span<const std::vector<double>> costs,
                                        Loc loc = Loc::current()) {
  for (const auto& row : costs) {
    require_samples("pareto_front", row, loc);
    if (row.size() != costs[0].size())
      fail("TT-STAT-04",
           "pareto_front: rows have " + std::to_string(costs[0].size()) + " and " +
               std::to_string(row.size()) + " columns\n  hint: give every point a value for every objective",
           loc);
  }
  const auto dominates = [&](const std::vector<double>& a, const std::vector<double>& b) {
    bool better_somewhere = false;
    for (size_t k = 0; k < a.size(); ++k) {
      if (a[k] > b[k]) return false;
      better_somewhere = better_somewhere || a[k] < b[k];
    }
    return better_somewhere;
  };
  std::vector<size_t> front;
  for (size_t i = 0; i < costs.size(); ++i)
    if (std::none_of(costs.begin(), costs.end(),
                     [&](const auto& other) { return dominates(other, costs[i]); }))
      front.push_back(i);
  return front;
}

}  // namespace tinytorch::inline TT_BUILD::statistics
