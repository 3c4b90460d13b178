// From runs to ranks: a function of samples alone, so that the same runs give the same table everywhere.
//
//   r        of a run: how many times better than the baseline, measured in turns with it
//   score    100 exp(mean over the scenarios of ln r), each r within [1/64, 64]; 100 is as good as the
//            baseline
//   rank     by the lower end of the score's 95 % interval; entries whose intervals overlap share it
//
// Every run of the highest class that was played counts: ln r of a scenario is the mean of its runs, so that
// repeated runs cannot select a lucky one. A run in which the baseline is out is left out.
//
// The ends of the score's interval are the means of the lower and of the upper ends of ln r. That is sound
// for any dependence between the scenarios: the estimates are nearly normal, and the standard deviation of a
// mean is at most the mean of the standard deviations, so the mean of the half-widths is at least the
// half-width of the mean. For independent scenarios the interval could be narrower, by up to the root of
// their number, but scenarios measured on the same warm or cold machine are not independent. So the interval
// holds the truth in at least 95 %: in simulations in about 95 % if the scenarios have the same error, and in
// 99 % if two are independent.
//
// An entry is not ranked if it was not measured in every scenario of the table or only in smoke runs, fails
// an audit or could not be audited, or fails the gate of its division in any run
// (judge/results/quality_gate.hpp).
//
// In a table of kernels, r is the score of the match: the speedup over all ops that both have right. An entry
// with no common right op is not ranked. If there are several runs, the one with the fewest right ops
// determines their number.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tinymlperf/board/store/views.hpp>
#include <tinymlperf/judge/results/any_run.hpp>
#include <tinymlperf/judge/results/quality_gate.hpp>
#include <tinytorch/benchmarking/ranking.hpp>
#include <vector>

namespace tinymlperf::board {

// True for audits that hold a result until the operator has reviewed it, if they are not passed: a
// suspiciously quick training (A9), a leap (A11), and whatever the noise of the machine left undecided.
inline bool is_holding(const judge::AuditResult& a) {
  return a.id == "A9" || a.id == "A11" || !judge::is_decided(a);
}

// The result of a run for one of its contenders.
struct Result {
  int64_t run = 0, submission = 0;
  std::string scenario, run_class, date, failed_audit;
  std::string unmade_audit;  // an audit that could not be made, and why
  judge::GateResult gate;
  bool audited = false;               // there were audits, and it passed them all
  bool held = false;                  // not ranked, only because of such an audit
  std::optional<Review> review = {};  // the last review of a held result
  std::optional<Interval> ratio, quality;
  std::optional<double> value;
  int64_t model_bytes = 0, peak_bytes = 0;
  std::optional<KernelCount> kernels = {};
};

namespace detail {

// The fields that runs of models and of kernels share.
template <class Document, class Contender>
Result common_result(const Document& d, const Contender& c) {
  Result r;
  r.scenario = judge::measured_by(d).scenario, r.run_class = d.run_class, r.date = d.date;
  r.audited = !c.audits.empty();
  std::string failed, holding;  // the first of each
  for (const judge::AuditResult& a : c.audits) {
    r.audited = r.audited && a.passed;
    if (a.passed) continue;
    std::string& first = !judge::was_made(a) ? r.unmade_audit : is_holding(a) ? holding : failed;
    if (!first.empty()) continue;
    first = a.id + " (" + a.name + ")" + (judge::was_made(a) ? "" : " was " + a.detail);
  }
  r.failed_audit = failed.empty() ? holding : failed;
  r.held = failed.empty() && r.unmade_audit.empty() && !holding.empty();
  r.peak_bytes = c.peak_bytes;
  return r;
}

}  // namespace detail

// Returns the result of a contender; nullopt if the baseline is out.
inline std::optional<Result> result_of(const judge::RunDocument& d, size_t place) {
  const judge::ContenderRecord &c = d.contenders.at(place), &baseline = d.contenders.front();
  if (!baseline.out.empty()) return std::nullopt;
  Result r = detail::common_result(d, c);
  r.gate = judge::quality_gate(d, c);
  r.held = r.held && r.gate.passed;
  r.ratio = judge::times_the_baseline(d.scenario, c, baseline);
  r.value = judge::value_of(d.scenario, c);
  r.quality = c.quality;
  r.model_bytes = c.model_bytes;
  return r;
}

inline KernelCount kernel_count(const judge::kernels::KernelContenderRecord& c,
                                const judge::kernels::KernelContenderRecord& baseline) {
  KernelCount out{judge::kernels::ops_right(c), static_cast<int64_t>(c.ops.size()), {}};
  std::array<double, 3> shares{};
  static_assert(shares.size() == judge::kernels::kFast.size());
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto share = judge::kernels::fast(c, baseline, judge::kernels::kFast[i].second);
    if (!share) return out;
    shares[i] = *share;
  }
  out.fast = shares;
  return out;
}

inline std::optional<Result> result_of(const judge::kernels::KernelRun& d, size_t place) {
  const auto &c = d.contenders.at(place), &baseline = d.contenders.front();
  if (!baseline.out.empty()) return std::nullopt;
  Result r = detail::common_result(d, c);
  r.ratio = judge::kernels::score_of(c, baseline);
  r.kernels = kernel_count(c, baseline);
  if (r.ratio) r.value = r.ratio->estimate;
  r.gate = {c.out.empty() && r.kernels->right > 0,
            !c.out.empty()         ? std::string(judge::kOutText) + c.out
            : r.kernels->right > 0 ? fmt::format("{} of {} ops are right", r.kernels->right, r.kernels->ops)
                                   : "no op is right"};
  r.held = r.held && r.gate.passed;
  return r;
}

inline std::optional<Result> result_of(const judge::AnyRun& run, size_t place) {
  return std::visit([&](const auto& d) { return result_of(d, place); }, run);
}

struct Standing {
  int64_t submission = 0;
  Level level = Level::self_reported;
  int64_t rank = 0;
  std::string not_ranked, date;
  std::optional<Interval> score, quality;
  std::vector<Cell> cells;
  int64_t model_bytes = 0, peak_bytes = 0;
  std::optional<KernelCount> kernels = {};
};

namespace detail {

constexpr double kLargestRatio = 64;

inline double clipped_log(double ratio) {
  return std::log(std::clamp(ratio, 1 / kLargestRatio, kLargestRatio));
}

// exp of the means of the logarithms, for each end separately.
inline Interval mean_of_logs(const std::vector<Interval>& ratios) {
  std::array<double, 3> sums{};
  for (const Interval& r : ratios) {
    sums[0] += clipped_log(r.estimate);
    sums[1] += clipped_log(r.low);
    sums[2] += clipped_log(r.high);
  }
  const auto n = static_cast<double>(ratios.size());
  return {std::exp(sums[0] / n), std::exp(sums[1] / n), std::exp(sums[2] / n)};
}

// The runs of the highest class in one scenario.
inline std::vector<const Result*> counting(const std::vector<Result>& all, const std::string& scenario) {
  std::vector<const Result*> out;
  for (const Result& r : all) {
    if (r.scenario != scenario) continue;
    if (!out.empty() && judge::class_order(r.run_class) > judge::class_order(out.front()->run_class))
      out.clear();
    if (out.empty() || judge::class_order(r.run_class) == judge::class_order(out.front()->run_class))
      out.push_back(&r);
  }
  return out;
}

// Why this result keeps its entry from a rank; empty if it does not.
inline std::string objection(const Result& r) {
  if (judge::class_order(r.run_class) == 0) return "a smoke run in " + r.scenario + " ranks nothing";
  if (!r.gate.passed) return "in " + r.scenario + ": " + r.gate.reason;
  if (r.held && r.review && !r.review->released)
    return "in " + r.scenario + ": refused after audit " + r.failed_audit + ": " + r.review->reason;
  if (r.held && !r.review)
    return "held for audit " + r.failed_audit + " in " + r.scenario + ", until somebody has looked at it";
  if (!r.held && !r.failed_audit.empty()) return "failed the audit " + r.failed_audit + " in " + r.scenario;
  if (!r.unmade_audit.empty()) return "in " + r.scenario + ": audit " + r.unmade_audit;
  if (!r.ratio)
    return r.kernels
               ? "no op that the baseline has right is right, or there are too few blocks for an interval"
               : "too few blocks for an interval in " + r.scenario;
  return "";
}

// Fills the cell of one scenario. The worst quality counts.
inline Cell gather(const std::vector<const Result*>& results, Standing& s) {
  Cell cell{results.front()->scenario, 0, {}};
  std::vector<double> values;
  std::vector<Interval> ratios;
  for (const Result* r : results) {
    if (s.not_ranked.empty()) s.not_ranked = objection(*r);
    if (!r->audited || !r->gate.passed) s.level = Level::rerun;  // whoever is out was not audited
    if (r->value) values.push_back(*r->value);
    if (r->ratio) ratios.push_back(*r->ratio);
    if (r->quality && (!s.quality || r->quality->low < s.quality->low)) s.quality = r->quality;
    if (r->kernels && (!s.kernels || r->kernels->right <= s.kernels->right)) s.kernels = r->kernels;
    s.date = std::max(s.date, r->date);
    s.model_bytes = r->model_bytes;
    s.peak_bytes = std::max(s.peak_bytes, r->peak_bytes);
  }
  if (!values.empty()) cell.value = tinytorch::statistics::median(values);
  if (ratios.size() == results.size()) cell.ratio = mean_of_logs(ratios);
  return cell;
}

inline Standing stand(int64_t submission, const std::vector<Result>& results,
                      const std::vector<std::string>& scenarios) {
  Standing s;
  s.submission = submission;
  if (results.empty()) {
    s.not_ranked = "not measured yet";
    return s;
  }
  s.level = Level::audited;
  std::vector<Interval> ratios;
  std::string missing;
  for (const std::string& scenario : scenarios) {
    const auto counted = counting(results, scenario);
    if (counted.empty()) {
      missing += (missing.empty() ? "not measured yet in " : ", ") + scenario;
      continue;
    }
    s.cells.push_back(gather(counted, s));
    if (s.cells.back().ratio) ratios.push_back(*s.cells.back().ratio);
  }
  if (s.cells.empty()) s.level = Level::self_reported;
  if (s.not_ranked.empty()) s.not_ranked = missing;
  if (!scenarios.empty() && ratios.size() == scenarios.size()) {
    const Interval mean = mean_of_logs(ratios);
    s.score = Interval{100 * mean.estimate, 100 * mean.low, 100 * mean.high};
  }
  return s;
}

}  // namespace detail

// The table's rows: first by rank, then the unranked by number. `results` of each submission come in any
// order; `scenarios` are the table's.
inline std::vector<Standing> standings(const std::map<int64_t, std::vector<Result>>& results,
                                       const std::vector<std::string>& scenarios) {
  std::vector<Standing> ranked, others, out;
  for (const auto& [submission, list] : results) {
    Standing s = detail::stand(submission, list, scenarios);
    (s.not_ranked.empty() ? ranked : others).push_back(std::move(s));
  }
  std::vector<Interval> scores;
  for (const Standing& s : ranked) scores.push_back(*s.score);
  for (const auto& [index, rank] : tinytorch::statistics::rank_with_ties(scores)) {
    out.push_back(std::move(ranked[index]));
    out.back().rank = rank;
  }
  out.insert(out.end(), others.begin(), others.end());
  return out;
}

// The history of the first place: the table after each day's runs, from results with dates.
inline std::vector<HistoryPoint> leaders(const std::map<int64_t, std::vector<Result>>& results,
                                         const std::vector<std::string>& scenarios) {
  std::vector<const Result*> by_date;
  for (const auto& [submission, list] : results)
    for (const Result& r : list) by_date.push_back(&r);
  std::stable_sort(by_date.begin(), by_date.end(), [](const Result* a, const Result* b) {
    return std::pair(a->date, a->run) < std::pair(b->date, b->run);
  });
  std::map<int64_t, std::vector<Result>> so_far;
  std::vector<HistoryPoint> out;
  for (size_t i = 0; i < by_date.size(); ++i) {
    so_far[by_date[i]->submission].push_back(*by_date[i]);
    if (i + 1 < by_date.size() && by_date[i + 1]->date == by_date[i]->date) continue;
    const auto table = standings(so_far, scenarios);
    if (table.front().rank != 1 || (!out.empty() && out.back().submission == table.front().submission))
      continue;
    out.push_back({by_date[i]->date, "", table.front().submission, table.front().score->estimate});
  }
  return out;
}

}  // namespace tinymlperf::board
