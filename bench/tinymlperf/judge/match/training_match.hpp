// A match between trainings: each trainer is started several times, in rounds of a random order, always alone
// on the machine, each time with its own seed. The judge's clock starts when the data are sent.
//
// The first contender is the baseline, and its convergence the reference. It has two runs in each round,
// twice as many as the others (a rule of MLCommons' training benchmarks). A contender that reaches the target
// in suspiciously fewer epochs is held: audit A9 fails, and the result is not ranked until somebody has
// reviewed it.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <tinymlperf/judge/results/run_document.hpp>
#include <tinytorch/benchmarking/schedule.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::judge {

struct TrainingContender {
  ContenderRecord record;
  std::function<std::unique_ptr<Learner>()> start;  // makes a fresh one; throws if it cannot
};

// One-sided t test of the epochs to the target at p = 0.05. It does not compare seconds, by which contenders
// are ranked.
inline double suspicion(const std::vector<double>& epochs, const std::vector<double>& reference) {
  using namespace tinytorch::statistics;
  const auto same = [](const std::vector<double>& v) {
    return std::ranges::all_of(v, [&](double x) { return x == v.front(); });
  };
  if (same(epochs) && same(reference)) return epochs.front() < reference.front() ? 0 : 1;
  return welch_t(epochs, reference, Alternative::kLess).p;
}

// This library trains entries of data, so in the open division fewer epochs mean a better recipe. Nobody can
// see how a plugin trains. In the closed division all train the baseline's model, which should need the same
// epochs.
inline AuditResult convergence_audit(const ContenderRecord& c, const ContenderRecord& baseline,
                                     const std::string& division) {
  AuditResult out{"A9", "convergence", true, "it is the reference"};
  if (&c == &baseline) return out;
  const std::vector<double> ours = epochs_of(c.training), reference = epochs_of(baseline.training);
  if (ours.size() < 2 || reference.size() + 1 < 2 * c.training.size()) {
    out.passed = false;
    out.detail = fmt::format("{} runs of the reference that reached the target are too few for {} of it",
                             reference.size(), c.training.size());
    return out;
  }
  const double p = suspicion(ours, reference);
  const bool recipe_is_seen = c.tier == "T0" && division == "open";
  out.passed = p >= 0.05 || recipe_is_seen;
  out.detail = fmt::format("{:.3g} epochs to the target, the reference {:.3g} (p = {:.3g}, one-sided){}",
                           tinytorch::statistics::mean(ours), tinytorch::statistics::mean(reference), p,
                           p >= 0.05        ? ""
                           : recipe_is_seen ? "; its recipe is open to see"
                                            : "; held until somebody has looked at it");
  return out;
}

class TrainingMatch {
 public:
  // `validation` has its hidden set drawn.
  TrainingMatch(const Benchmark& validation, const TrainingRules& rules, size_t runs, std::string division,
                uint64_t seed)
      : validation_(validation), rules_(rules), runs_(runs), division_(std::move(division)), seed_(seed) {}

  void operator()(std::vector<TrainingContender>& contenders) const {
    uint32_t number = 0;
    for (const auto& round : tinytorch::benchmarking::random_blocks(contenders.size() + 1, runs_, seed_))
      for (const size_t i : round) {
        const auto seed = tinytorch::philox(seed_, ++number);
        TrainingContender& c = contenders[i == contenders.size() ? 0 : i];
        if (c.record.out.empty()) train(c, (uint64_t{seed.v[0]} << 32) | seed.v[1]);
      }
    for (TrainingContender& c : contenders) {
      c.record.quality = quality_of(c.record.training);
      const TrainingResult result = summarize(c.record.training);
      if (c.record.out.empty() && !result.seconds) c.record.out = result.invalid;
    }
    const ContenderRecord& baseline = contenders.front().record;
    for (TrainingContender& c : contenders)
      if (c.record.out.empty() && baseline.out.empty())
        c.record.audits.push_back(convergence_audit(c.record, baseline, division_));
  }

 private:
  // A contender that missed the target twice has no result any more, so it is not run again.
  void train(TrainingContender& c, uint64_t seed) const {
    ContenderRecord& record = c.record;
    try {
      const std::unique_ptr<Learner> learner = c.start();
      TrainingRun run = train_to_target(*learner, validation_, rules_, seed);
      const LearnerEnd end = learner->end();
      if (!run.ended.empty() && !end.reason.empty()) run.ended += "; " + end.reason;
      record.training.push_back(std::move(run));
      record.peak_bytes = std::max(record.peak_bytes, end.peak_bytes);
      const auto missed =
          std::ranges::count_if(record.training, [](const TrainingRun& r) { return !r.converged(); });
      if (missed > 1)
        record.out = fmt::format("{} of {} runs did not reach the target of {:g}; the last: {}", missed,
                                 record.training.size(), rules_.target, record.training.back().ended);
    } catch (const std::exception& e) {
      record.out = e.what();
    }
  }

  const Benchmark& validation_;
  TrainingRules rules_;
  size_t runs_;
  std::string division_;
  uint64_t seed_;
};

}  // namespace tinymlperf::judge
