// ttq: the time to train a model until it is good enough, on a clock that is not the trainer's.
//
// A learner is handed training data, the inputs of a hidden validation set, and a seed. As often as it likes
// it sends its answers to all of these inputs; the first that reach the target end the run. The judge alone
// knows the labels, grades what comes by when it came, and gives no hint between.
//
// One run is luck, so several are made, each with a seed of its own; the fastest and the slowest are dropped
// and the rest averaged. A run that never gets there is the slowest; two of them, and there is no result.
// (The rules of MLCommons' training benchmarks, mlcommons/training_policies.)
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

// Answers to the whole validation set, and when the last byte of them was here.
struct Attempt {
  double at = 0;
  std::vector<Answer> answers;
};

// How a learner ended, as far as that is known.
struct LearnerEnd {
  int64_t peak_bytes = 0;  // of memory; 0: not known
  std::string reason;      // what is to be said of it; empty: nothing
};

// Whoever trains. Times are seconds on one clock, the judge's.
class Learner {
 public:
  virtual ~Learner() = default;
  // Hands everything over; gives when that began, and the clock with it: were it the end, who trains would
  // say when.
  virtual double start(uint64_t seed) = 0;
  // The next attempt, or nothing when `until` has come or the learner has ended. Throws when it has broken.
  virtual std::optional<Attempt> next(double until) = 0;
  // After its run; nothing of it goes on.
  virtual LearnerEnd end() { return {}; }
};

struct TrainingRules {
  double target = 0;       // quality, as the benchmark measures it
  double seconds = 600;    // a run that takes longer has not converged
  int64_t attempts = 200;  // so that nobody finds the answers by trying
};

struct TrainingRun {
  uint64_t seed = 0;
  double limit = 0;                      // seconds that it had
  std::vector<double> times, qualities;  // of each attempt, since the start
  std::string ended;                     // why the target was not reached; empty: the last attempt reached it

  bool converged() const { return ended.empty() && !times.empty(); }
  int64_t attempts() const { return static_cast<int64_t>(times.size()); }
  // To the target; nothing: it was not reached.
  std::optional<double> seconds() const { return converged() ? std::optional(times.back()) : std::nullopt; }
  // Quality of the best attempt; nothing before the first.
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
  std::string invalid;            // why there is none
};

// Follows from the runs alone, so that anyone can form it again.
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
