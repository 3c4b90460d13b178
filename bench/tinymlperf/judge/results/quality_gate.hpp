// Decides if a contender is good enough to be ranked, and says why if it is not.
//
//   open     the lower bound of its quality reaches the benchmark's floor
//   closed   it keeps 99 % of the baseline's quality: the 95 % lower bound of the mean over samples of
//            credit - 0.99 baseline's credit is not below 0. Both answered the same samples, so samples that
//            are hard for both cancel and those on which they differ decide (paired bootstrap). For a
//            language, whose quality is bits, it needs at most 1.01 times the baseline's: the 95 % upper
//            bound of the mean over windows of bits - 1.01 baseline's bits is not above 0. For an area under
//            the ROC curve the bound is DeLong's (benchmarking/paired_auc.hpp), since two samples form a pair
//
// A ranked run needs 10,000 samples: fewer cannot tell 99 % from 98 %.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tinymlperf/judge/results/run_document.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>
#include <tinytorch/benchmarking/paired_auc.hpp>
#include <vector>

namespace tinymlperf::judge {

inline constexpr double kClosedShare = 0.99, kClosedBits = 1.01;
inline constexpr int64_t kLeastRankedSamples = 10000;

// Official runs count before ranked ones; 0: any other class, which ranks nothing.
inline int class_order(const std::string& run_class) {
  return run_class == "official" ? 2 : run_class == "ranked" ? 1 : 0;
}

// The beginning of the reason of a contender that is out; the rest says why.
inline constexpr std::string_view kOutText = "out: ";

struct GateResult {
  bool passed = false;
  std::string reason;
};

namespace detail {

inline std::vector<double> credits_of(const std::string& text) {
  std::vector<double> out;
  for (const char c : text) out.push_back(c == '1' ? 1.0 : 0.0);
  return out;
}

// One-sided 95 % bound of the mean of ours - weight * theirs.
inline double lower_bound(const std::vector<double>& ours, const std::vector<double>& theirs, double weight) {
  return tinytorch::statistics::paired_lower_bound(ours, theirs, weight, {.draws = 2000, .confidence = 0.95});
}

inline bool of_the_same_samples(const auto& ours, const auto& theirs) {
  return !ours.empty() && ours.size() == theirs.size();
}

inline GateResult keeps_share(const RunDocument& d, size_t asked, double bound) {
  if (class_order(d.run_class) > 0 && static_cast<int64_t>(asked) < kLeastRankedSamples)
    return {false, fmt::format("{} hidden samples cannot tell 99 % from 98 %: a ranked run asks {} at least",
                               asked, kLeastRankedSamples)};
  const std::string text = fmt::format("{} less {:g} times the baseline's is {:+.4f} at least (95 %)",
                                       d.quality_metric, kClosedShare, bound);
  return {bound >= 0, text + (bound >= 0 ? "" : ": it lost more than 1 %")};
}

inline GateResult closed_gate(const RunDocument& d, const ContenderRecord& c) {
  const ContenderRecord& baseline = d.contenders.front();
  if (of_the_same_samples(c.minus_bits, baseline.minus_bits)) {
    const double bound = -lower_bound(c.minus_bits, baseline.minus_bits, kClosedBits);
    const std::string text = fmt::format(
        "bits per byte less {:g} times the baseline's are {:+.4f} at most (95 %)", kClosedBits, bound);
    return {bound <= 0, text + (bound <= 0 ? "" : ": that it needs at most 1 % more is not shown")};
  }
  const auto& [positives, negatives] = c.wins;
  if (of_the_same_samples(positives, baseline.wins.positives) &&
      of_the_same_samples(negatives, baseline.wins.negatives) &&
      std::min(positives.size(), negatives.size()) > 1)
    return keeps_share(d, positives.size() + negatives.size(),
                       tinytorch::statistics::paired_auc_lower_bound(c.wins, baseline.wins, kClosedShare));
  const std::vector<double> ours = credits_of(c.credit), theirs = credits_of(baseline.credit);
  if (!of_the_same_samples(ours, theirs))
    return {false,
            "the closed division compares answers sample by sample, and this benchmark has no such credit"};
  return keeps_share(d, ours.size(), lower_bound(ours, theirs, kClosedShare));
}

}  // namespace detail

inline GateResult quality_gate(const RunDocument& d, const ContenderRecord& c) {
  if (!c.out.empty()) return {false, std::string(kOutText) + c.out};
  if (d.scenario == Scenario::time_to_quality) {  // runs end when they reach the target
    const TrainingResult result = summarize(c.training);
    return {result.seconds.has_value(),
            result.seconds ? fmt::format("its runs reach {} {:g}", d.quality_metric, d.quality_floor)
                           : result.invalid};
  }
  if (!c.quality) return {false, "its quality was not measured"};
  if (c.quality->low < d.quality_floor)
    return {false, fmt::format("{} {:.4f} (95 %: from {:.4f}) is below the floor of {:g}", d.quality_metric,
                               c.quality->estimate, c.quality->low, d.quality_floor)};
  if (d.division != "closed")
    return {true, fmt::format("{} reaches the floor of {:g}", d.quality_metric, d.quality_floor)};
  return detail::closed_gate(d, c);
}

}  // namespace tinymlperf::judge
