// Bootstrap intervals: redo the experiment on resampled data, and see how far the statistic moves.
//
// Percentile bootstraps (Efron 1979), because latencies are skewed and percentiles have no simple standard
// error. Random resampling draws from Philox, so an interval is a pure function of (samples, options): same
// bits anywhere. What is resampled must be what was drawn independently: samples, processes, or pairs. For a
// ratio over few paired blocks these intervals are too narrow; paired_ratio.hpp has one that is not.
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
  int64_t draws = 10000;     // resamples; Monte Carlo error of a bound shrinks with its square root
  double confidence = 0.95;  // share of repetitions of the whole experiment whose interval holds the truth
  uint64_t seed = 0;
};

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

// For independent samples: 95 % means 92 to 96 % for 11 to 300 of them, of one mode or two, with tails or
// without. Samples that one process takes one after the other are not: where a neighbour takes the machine
// for some calls in a row it means 73 to 80 %, and where the machine becomes slower over 99 % (of the whole
// session's median). What is to be compared takes turns, and is compared by paired_ratio.hpp.
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

// Hierarchical bootstrap of samples from several processes (Davison and Hinkley 1997, section 3.8): processes
// are resampled first, then the samples inside each, because two calls of one process share its memory
// layout, clock and neighbours. `statistic(std::span<double>)` gets all drawn samples and may reorder them;
// the estimate is its value of all samples together.
//
// With few processes the interval is too narrow, since their spread is known from few: where processes differ
// more than their samples, 95 % means 85 to 93 % for 5 processes, 90 to 94 % for 10, 92 to 96 % for 20 and 93
// to 97 % for 30, normal ones, such in two modes and such that drift. Where they are alike it is too wide (98
// to 99 %), since the samples' noise is then counted twice.
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

// mean(a) - weight * mean(b) over pairs: a[i] and b[i] are two answers to test sample i, which are resampled
// together. What is hard for both then cancels, so that two networks that disagree on few samples are
// compared by those few. Unit of the samples.
inline Interval bootstrap_paired_difference(Samples a, Samples b, double weight = 1,
                                            const BootstrapOptions& options = {}, Loc loc = Loc::current()) {
  require_pairs("bootstrap_paired_difference", a, b, loc);
  std::vector<double> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - weight * b[i];
  return bootstrap_mean(difference, options, loc);
}

// One-sided lower bound of mean(a) - weight * mean(b): the truth is above it with options.confidence. With 1
// for a right answer and 0 for a wrong one, a network keeps the share `weight` of the reference's accuracy if
// this is at least 0. Takes draws times samples random numbers: seconds for 10,000 of each.
inline double paired_lower_bound(Samples a, Samples b, double weight = 1, BootstrapOptions options = {},
                                 Loc loc = Loc::current()) {
  require_in_range("paired_lower_bound", "confidence", options.confidence, 0.5, 1, loc);
  options.confidence = 2 * options.confidence - 1;  // all of the risk is at this side
  return bootstrap_paired_difference(a, b, weight, options, loc).low;
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
  // What lies 40 standard deviations below the mean has no probability that a double could hold (Chernoff:
  // exp(-800)).
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

}  // namespace tinytorch::inline TT_BUILD::statistics
