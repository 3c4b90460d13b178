// The result of one trainer from all its runs: time, quality, and how many times faster than the baseline.
//
// Runs are independent, each with its own seed, so they are not paired. The ratio is the median of the ratios
// of every run of one with every run of the other, and its interval inverts the Mann-Whitney test on the
// logarithms (Hodges and Lehmann 1963). It assumes no shape of the distribution, only the same shape for both
// up to a factor. A run that missed the target counts as its whole time limit, the least time that it would
// have taken.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tinymlperf/judge/scenarios/time_to_quality.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <tinytorch/benchmarking/hypothesis.hpp>
#include <tinytorch/benchmarking/paired_ratio.hpp>
#include <vector>

namespace tinymlperf::judge {

using TrainingRuns = std::vector<TrainingRun>;

// One value for each run, in the order of time.
inline std::vector<double> seconds_of(const TrainingRuns& runs) {
  std::vector<double> out;
  for (const TrainingRun& r : runs) out.push_back(r.seconds().value_or(r.limit));
  return out;
}

// Epochs to the target of the runs that reached it: a learner answers after each epoch.
inline std::vector<double> epochs_of(const TrainingRuns& runs) {
  std::vector<double> out;
  for (const TrainingRun& r : runs)
    if (r.converged()) out.push_back(static_cast<double>(r.attempts()));
  return out;
}

// The mean, least and greatest final quality of the runs; empty if no run made an attempt.
inline std::optional<tinytorch::statistics::Interval> quality_of(const TrainingRuns& runs) {
  std::vector<double> best;
  for (const TrainingRun& r : runs)
    if (const auto b = r.best()) best.push_back(*b);
  if (best.empty()) return std::nullopt;
  const auto [low, high] = std::ranges::minmax(best);
  return tinytorch::statistics::Interval{tinytorch::statistics::mean(best), low, high};
}

// Above 1: faster. Empty while either has no result, or too few runs for 95 %.
inline std::optional<tinytorch::statistics::Interval> times_faster(const TrainingRuns& runs,
                                                                   const TrainingRuns& baseline) {
  if (!summarize(runs).seconds || !summarize(baseline).seconds) return std::nullopt;
  std::vector<double> logs;
  for (const double ours : seconds_of(runs))
    for (const double theirs : seconds_of(baseline)) logs.push_back(std::log(theirs / ours));
  std::ranges::sort(logs);
  size_t outside = 0;
  double total = 0;
  for (const double p : tinytorch::statistics::mann_whitney_null(runs.size(), baseline.size())) {
    total += p;
    if (total > 0.025) break;
    ++outside;
  }
  if (outside == 0) return std::nullopt;
  return tinytorch::statistics::Interval{std::exp(tinytorch::statistics::median(logs)),
                                         std::exp(logs[outside - 1]), std::exp(logs[logs.size() - outside])};
}

// True if the challenger beats the holder by the rule for new records. Both must have a result.
inline tinytorch::statistics::RecordTrial training_record(
    const TrainingRuns& holder, const TrainingRuns& challenger,
    const tinytorch::statistics::RecordRule& rule = {}) {
  using namespace tinytorch::statistics;
  RecordTrial trial;
  trial.speedup = times_faster(challenger, holder).value().estimate;
  trial.p = mann_whitney(seconds_of(challenger), seconds_of(holder), Alternative::kLess).p;
  trial.accepted = trial.p < rule.significance && trial.speedup >= 1 + rule.least_gain;
  return trial;
}

// ---- in run.json: values that follow from the attempts are written for readers and recomputed

inline Json to_json(const TrainingRun& r) {
  const auto seconds = r.seconds(), best = r.best();
  return {{"seed", r.seed},
          {"limit", r.limit},
          {"times", r.times},
          {"qualities", r.qualities},
          {"ended", r.ended},
          {"seconds", seconds ? Json(*seconds) : Json()},
          {"best", best ? Json(*best) : Json()}};
}

// `target` is the quality that a run without a reason must have reached. Throws std::invalid_argument.
inline TrainingRun read_training_run(const Json& j, double target, const std::string& of) {
  const TrainingRun r{.seed = whole<uint64_t>(j.at("seed")),
                      .limit = j.at("limit").get<double>(),
                      .times = j.at("times").get<std::vector<double>>(),
                      .qualities = j.at("qualities").get<std::vector<double>>(),
                      .ended = j.at("ended").get<std::string>()};
  const bool good = r.limit > 0 && r.times.size() == r.qualities.size() && std::ranges::is_sorted(r.times) &&
                    (r.times.empty() || (r.times.front() > 0 && r.times.back() <= r.limit));
  if (!good)
    throw std::invalid_argument("run file: " + of +
                                ": expected rising times within the limit, one for each quality");
  const bool reached = !r.qualities.empty() && r.qualities.back() >= target;
  if (reached != r.ended.empty())
    throw std::invalid_argument("run file: " + of +
                                ": a training ends where it reaches the target, or says why it did not");
  return r;
}

}  // namespace tinymlperf::judge
