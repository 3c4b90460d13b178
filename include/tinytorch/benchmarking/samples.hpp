// Summaries of one set of samples: percentiles, location, spread, outlier labels.
//
// Plain double arithmetic on finite samples; every function throws TT-STAT-01 on empty or non-finite input.
// Outliers are labelled but never removed, because a slow call is a property of the program.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <tinytorch/core/error.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::statistics {

using Samples = std::span<const double>;

// A point estimate with the bounds of its confidence interval: low <= high, same unit as the samples.
struct Interval {
  double estimate = 0;
  double low = 0;
  double high = 0;
};

// ---- checks -----------------------------------------------------------------------------------------

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
         std::string(function) + ": " + name + " is " + std::to_string(value) + ", must be in [" +
             std::to_string(low) + ", " + std::to_string(high) + "]",
         loc);
}

// Both must have the same number of samples: sample i of one is paired with sample i of the other.
inline void require_pairs(const char* function, Samples a, Samples b, Loc loc) {
  require_samples(function, a, loc);
  require_samples(function, b, loc);
  if (a.size() != b.size())
    fail("TT-STAT-05",
         std::string(function) + ": " + std::to_string(a.size()) + " samples cannot be paired with " +
             std::to_string(b.size()) + "\n  hint: give one value of each side per block or test sample",
         loc);
}

// ---- location and spread ----------------------------------------------------------------------------

// The rank (1-based) of the nearest-rank percentile among n samples: ceil(percent * n / 100), at least 1. The
// rounding error of a percentage such as 99.9, which is no binary fraction, must not raise the rank: of 1000
// samples it is 999. So 1e-9, far less than one rank, is subtracted before the result is rounded up.
inline size_t nearest_rank(double percent, size_t n) {
  const double rank = std::ceil(percent * static_cast<double>(n) / 100.0 - 1e-9);
  return std::clamp(static_cast<size_t>(std::max(rank, 1.0)), size_t{1}, n);
}

namespace detail {
// The k-th smallest value (0-based), in linear time; reorders its argument.
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

// The smallest sample that is at least as large as `percent` % of the samples. It is always one of the
// samples and never interpolated, so a reported p90 is a call that happened. percent is in [0, 100]; 0 gives
// the minimum.
inline double percentile(Samples samples, double percent, Loc loc = Loc::current()) {
  require_samples("percentile", samples, loc);
  require_in_range("percentile", "percent", percent, 0, 100, loc);
  auto values = detail::copy(samples);
  return detail::percentile_in_place(values, percent);
}

// The middle sample, or the mean of the two middle samples.
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

// ---- outliers ---------------------------------------------------------------------------------------

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

}  // namespace tinytorch::inline TT_BUILD::statistics
