// Whether a contender is good enough to be ranked, and for which reason it is not.
//
//   open     the lower bound of its quality reaches the benchmark's floor
//   closed   it keeps 99 % of the baseline's quality: the 95 % lower bound of the mean over samples of
//            credit - 0.99 baseline's credit is not below 0. Both answered the same samples, so what is hard for both
//            cancels and those on which they differ decide (paired bootstrap).
// A ranked run needs 10,000 samples: fewer cannot tell 99 % from 98 %.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tinymlperf/judge/run_document.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>
#include <vector>

namespace tinymlperf::judge {

inline constexpr double kClosedShare = 0.99;
inline constexpr int64_t kLeastRankedSamples = 10000;

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
}  // namespace detail

inline GateResult quality_gate(const RunDocument& d, const ContenderRecord& c) {
  if (!c.out.empty()) return {false, "out: " + c.out};
  if (d.scenario == Scenario::time_to_quality) {  // its runs end where they reach the target
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
  const std::vector<double> ours = detail::credits_of(c.credit),
                            theirs = detail::credits_of(d.contenders.front().credit);
  if (ours.empty() || ours.size() != theirs.size())
    return {false,
            "the closed division compares answers sample by sample, and this benchmark has no such credit"};
  const double bound = tinytorch::statistics::paired_lower_bound(ours, theirs, kClosedShare,
                                                                 {.draws = 2000, .confidence = 0.95});
  const std::string text = fmt::format("{} less {:g} times the baseline's is {:+.4f} at least (95 %)",
                                       d.quality_metric, kClosedShare, bound);
  return {bound >= 0, text + (bound >= 0 ? "" : ": it lost more than 1 %")};
}

}  // namespace tinymlperf::judge
