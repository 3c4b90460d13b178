// Bootstrap intervals: the experiment is repeated on resampled data to estimate how much a statistic varies.
//
// These are percentile bootstraps (Efron 1979), because latencies are skewed and percentiles have no simple
// standard error. Resampling draws from Philox, so an interval is a pure function of (samples, options), with
// the same bits on any machine. The resampled units must be independent: samples, processes, or pairs. For a
// ratio over few paired blocks these intervals are too narrow; use paired_ratio.hpp.
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

// Fills `out` with samples drawn with replacement.
inline void resample(Samples samples, std::span<double> out, Generator& random) {
  for (double& x : out) x = samples[random.below(samples.size())];
}

// The interval spanned by replicates of a statistic: their nearest-rank percentiles at both tails. Reorders
// them.
inline Interval percentile_interval(double estimate, std::span<double> replicates, double confidence = 0.95,
                                    Loc loc = Loc::current()) {
  require_samples("percentile_interval", replicates, loc);
  require_in_range("percentile_interval", "confidence", confidence, 0, 1, loc);
  const double tail = 50 * (1 - confidence);
  const double low = detail::percentile_in_place(replicates, tail);
  return {estimate, low, detail::percentile_in_place(replicates, 100 - tail)};
}

// The general form: `replicate(Generator&)` repeats the experiment once on resampled data and returns the
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

// Hierarchical bootstrap of samples from several processes (Davison and Hinkley 1997, section 3.8). Processes
// are resampled first, then the samples in each, because two calls of one process share its memory layout,
// clock and machine load. `statistic(std::span<double>)` receives all drawn samples and may reorder them; the
// estimate is its value for all samples together.
//
// With few processes the interval is too narrow, because the spread between processes is estimated from few
// values. If processes differ more than their samples, the coverage of a 95 % interval is 85 to 93 % for 5
// processes, 90 to 94 % for 10, 92 to 96 % for 20 and 93 to 97 % for 30, for normal, bimodal and drifting
// processes. If processes are alike, it is too wide (98 to 99 %), because the noise of the samples is counted
// twice.
template <class Statistic>
Interval bootstrap_hierarchical(std::span<const std::vector<double>> processes, Statistic&& statistic,
                                const BootstrapOptions& options = {}, Loc loc = Loc::current()) {
  std::vector<double> drawn;
  for (const auto& samples : processes) {
    require_samples("bootstrap_hierarchical", samples, loc);
    drawn.insert(drawn.end(), samples.begin(), samples.end());
  }
  require_samples("bootstrap_hierarchical", drawn, loc);
  const double estimate = statistic(std::span<double>(drawn));
  return bootstrap(
      estimate,
      [&](Generator& random) {
        drawn.clear();
        for (size_t i = 0; i < processes.size(); ++i) {
          const auto& samples = processes[random.below(processes.size())];
          drawn.resize(drawn.size() + samples.size());
          resample(samples, std::span(drawn).last(samples.size()), random);
        }
        return statistic(std::span<double>(drawn));
      },
      options, loc);
}

inline Interval bootstrap_hierarchical_median(std::span<const std::vector<double>> processes,
                                              const BootstrapOptions& options = {},
                                              Loc loc = Loc::current()) {
  return bootstrap_hierarchical(processes, detail::median_in_place, options, loc);
}

// mean(a) - weight * mean(b) over pairs, in the unit of the samples. a[i] and b[i] are two results for test
// sample i, which are resampled together. The difficulty of a sample for both cancels, so two networks that
// disagree on few samples are compared by those samples.
inline Interval bootstrap_paired_difference(Samples a, Samples b, double weight = 1,
                                            const BootstrapOptions& options = {}, Loc loc = Loc::current()) {
  require_pairs("bootstrap_paired_difference", a, b, loc);
  std::vector<double> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - weight * b[i];
  return bootstrap_mean(difference, options, loc);
}

// One-sided lower bound of mean(a) - weight * mean(b): the true value is above it with options.confidence.
// With 1 for a correct answer and 0 for a wrong one, a network keeps the fraction `weight` of the reference's
// accuracy if the bound is at least 0. Draws (draws x samples) random numbers: seconds for 10,000 of each.
inline double paired_lower_bound(Samples a, Samples b, double weight = 1, BootstrapOptions options = {},
                                 Loc loc = Loc::current()) {
  require_in_range("paired_lower_bound", "confidence", options.confidence, 0.5, 1, loc);
  options.confidence = 2 * options.confidence - 1;  // all of the risk is on this side
  return bootstrap_paired_difference(a, b, weight, options, loc).low;
}

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
