// Bootstrap intervals: the experiment is repeated on resampled data to estimate how much a statistic varies.
//
// The frame of a course header: it has the given parts, and includes the functions of tasks 10.3 and 10.10.
// It is cut from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <tinytorch/benchmarking/samples.hpp>
#include <tinytorch/core/random.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::statistics {

struct BootstrapOptions {
  int64_t draws =
      10000;  // resamples; the Monte Carlo error of a bound falls with the square root of their number
  double confidence = 0.95;  // fraction of repeated experiments whose interval contains the true value
  uint64_t seed = 0;
};

inline void resample(Samples samples, std::span<double> out, Generator& random);  // task 10.3
inline Interval percentile_interval(double estimate, std::span<double> replicates, double confidence = 0.95,
                                    Loc loc = Loc::current());  // task 10.3
template <class Replicate>
Interval bootstrap(double estimate, Replicate&& replicate, const BootstrapOptions& options = {},
                   Loc loc = Loc::current());  // task 10.3

// If samples are independent, a 95 % interval covers the true median in 92 to 96 % of runs for 11 to 300
// samples, with one mode or two, with or without heavy tails. Consecutive samples of one process are not
// independent. If other work occupies the machine for several consecutive calls, the coverage is 73 to 80 %;
// if the machine becomes slower over time, over 99 % (of the median of the whole session). To compare two
// programs, measure them in turns and use paired_ratio.hpp.
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

// median(numerator) / median(denominator) of two independent sets; all samples > 0. Above 1 the numerator is
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

template <class Statistic>
Interval bootstrap_hierarchical(std::span<const std::vector<double>> processes, Statistic&& statistic,
                                const BootstrapOptions& options = {}, Loc loc = Loc::current());  // task 10.3

inline Interval bootstrap_hierarchical_median(std::span<const std::vector<double>> processes,
                                              const BootstrapOptions& options = {},
                                              Loc loc = Loc::current()) {
  return bootstrap_hierarchical(processes, detail::median_in_place, options, loc);
}

// Task 10.10.
inline Interval bootstrap_paired_difference(Samples a, Samples b, double weight = 1,
                                            const BootstrapOptions& options = {}, Loc loc = Loc::current());
inline double paired_lower_bound(Samples a, Samples b, double weight = 1, BootstrapOptions options = {},
                                 Loc loc = Loc::current());  // task 10.10

// Percentile bootstrap of a proportion such as an accuracy. The resampled number of hits is Binomial(n, k/n),
// so its percentiles are computed exactly without draws. At k = 0 or n the interval has no width, because the
// sample has no evidence of the other outcome; use wilson_interval there.
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
  // Values 40 standard deviations below the mean have a probability of 0 in double (Chernoff: exp(-800)).
  const double first = std::floor(n * p - 40 * std::sqrt(n * p));
  for (auto k = static_cast<int64_t>(std::max(first, 0.0)); k <= trials; ++k) {
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

// Wilson's score interval (1927) of a proportion; z is the normal quantile, 1.959964 for 95 %. It has a width
// at 0 and 1 too.
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

}  // namespace tinytorch::inline TT_BUILD::statistics

#include <tasks/benchmarking/bootstrap.hpp>
