// The scenario time_to_quality (benchmarks ttq-...): the time to train a model until it is good enough, on
// the judge's clock.
//
// A learner receives training data, the inputs of a hidden validation set, and a seed. It may send its
// answers to all of these inputs as often as it likes; the first that reach the target end the run. The judge
// alone has the labels, grades each attempt by its arrival time, and gives no feedback.
//
// A single run depends on luck, so several are made, each with its own seed. The fastest and the slowest are
// dropped and the rest averaged. A run that does not reach the target is the slowest; with two of them there
// is no result. (Rules of MLCommons' training benchmarks, mlcommons/training_policies.)
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tinymlperf/benchmarks/benchmark.hpp>
#include <vector>

namespace tinymlperf::judge {

// Answers to the whole validation set, and when their last byte arrived.
struct Attempt {
  double at = 0;
  std::vector<Answer> answers;
};

// The end of a learner, as far as it is known.
struct LearnerEnd {
  int64_t peak_bytes = 0;  // peak memory; 0: not known
  std::string reason;      // why it failed; empty: it did not
};

// A trainer. Times are seconds on one clock, the judge's.
class Learner {
 public:
  virtual ~Learner() = default;
  // Sends everything, and returns when that began, which starts the clock. If the clock started at the end,
  // the trainer could choose when.
  virtual double start(uint64_t seed) = 0;
  // The next attempt, or nothing when `until` has come or the learner has ended. Throws if it has failed.
  virtual std::optional<Attempt> next(double until) = 0;
  // Called after its run; nothing of it goes on.
  virtual LearnerEnd end() { return {}; }
};

struct TrainingRules {
  double target = 0;       // quality, as the benchmark measures it
  double seconds = 600;    // a run that takes longer has not converged
  int64_t attempts = 200;  // the most, so that the answers cannot be found by trying
};

struct TrainingRun {
  uint64_t seed = 0;
  double limit = 0;                      // the most seconds
  std::vector<double> times, qualities;  // seconds since the start and quality of each attempt
  std::string ended;                     // why the target was not reached; empty: the last attempt reached it

  bool converged() const { return ended.empty() && !times.empty(); }
  int64_t attempts() const { return static_cast<int64_t>(times.size()); }
  // Seconds to the target; empty if it was not reached.
  std::optional<double> seconds() const { return converged() ? std::optional(times.back()) : std::nullopt; }
  // Quality of the best attempt; empty before the first.
  std::optional<double> best() const {
    return times.empty() ? std::nullopt : std::optional(*std::ranges::max_element(qualities));
  }
};

// `validation` is the benchmark with its hidden set drawn.
inline TrainingRun train_to_target(Learner& learner, const Benchmark& validation, const TrainingRules& rules,
                                   uint64_t seed) {
  TrainingRun run{.seed = seed, .limit = rules.seconds, .times = {}, .qualities = {}, .ended = ""};
  try {
    const double start = learner.start(seed);
    while (run.attempts() < rules.attempts) {
      const std::optional<Attempt> attempt = learner.next(start + rules.seconds);
      if (!attempt || attempt->at > start + rules.seconds) {
        run.ended = "it did not reach the target within its time, or ended before";
        return run;
      }
      if (static_cast<int64_t>(attempt->answers.size()) != validation.size())
        throw std::runtime_error("an attempt must answer all " + std::to_string(validation.size()) +
                                 " samples, found " + std::to_string(attempt->answers.size()) + " answers");
      run.qualities.push_back(validation.quality(attempt->answers).value.estimate);
      run.times.push_back(attempt->at - start);
      if (run.qualities.back() >= rules.target) return run;
    }
    run.ended = "it used up its " + std::to_string(rules.attempts) + " attempts";
  } catch (const std::exception& e) {
    run.ended = e.what();
  }
  return run;
}

struct TrainingResult {
  std::optional<double> seconds;  // the mean of all runs but the fastest and the slowest
  std::string invalid;            // why there is no result
};

// Depends on the runs alone, so that it can be recomputed.
inline TrainingResult summarize(const std::vector<TrainingRun>& runs) {
  constexpr size_t kFewest = 5;
  if (runs.size() < kFewest)
    return {{},
            "expected at least " + std::to_string(kFewest) + " runs, found " + std::to_string(runs.size())};
  std::set<uint64_t> seeds;
  std::vector<double> times;
  for (const TrainingRun& r : runs) {
    if (!seeds.insert(r.seed).second)
      return {{}, "expected a seed of its own for each run, found " + std::to_string(r.seed) + " twice"};
    times.push_back(r.seconds().value_or(INFINITY));
  }
  std::sort(times.begin(), times.end());
  if (std::isinf(times[times.size() - 2]))
    return {{},
            "expected at most one run that does not reach the target, found " +
                std::to_string(std::count(times.begin(), times.end(), INFINITY))};
  const double sum = std::accumulate(times.begin() + 1, times.end() - 1, 0.0);
  return {sum / static_cast<double>(times.size() - 2), ""};
}

}  // namespace tinymlperf::judge
