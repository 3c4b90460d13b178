// A match as a table for readers: rank, quality and speed of each contender, and why one does not count.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tinymlperf/judge/results/match_ranks.hpp>
#include <tinymlperf/support/foreign_text.hpp>
#include <tinytorch/benchmarking/document.hpp>

namespace tinymlperf::judge {

// Why it does not count, on one line; empty if it does. It may hold text of the submission.
inline std::string verdict_of(const RunDocument& d, const ContenderRecord& c) {
  std::string out = quality_gate(d, c).reason;
  for (const AuditResult& a : c.audits)
    if (!a.passed && c.out.empty()) out += "; audit " + a.id + ", " + a.name + ": " + a.detail;
  return one_line(out);
}

// "dig, offline, class smoke, hidden set 512 samples".
inline std::string match_title(const RunDocument& d) {
  const std::string of = d.text.is_null() ? "" : " of " + one_line(d.text.at("file").get<std::string>(), 100);
  return fmt::format("{}, {}, class {}, hidden set {} samples{}", d.benchmark, name_of(d.scenario),
                     d.run_class, d.hidden_samples, of);
}

inline tinytorch::document::Rows match_rows(const RunDocument& d) {
  const Measure measure = measure_of(d.scenario);
  const auto ranks = match_ranks(d);
  tinytorch::document::Rows rows{{"rank", "entry", d.quality_metric,
                                  fmt::format("{} ({})", measure.name, measure.unit), "at most (99 %)",
                                  "times the baseline [95 %]", ""}};
  for (size_t i = 0; i < d.contenders.size(); ++i) {
    const ContenderRecord& c = d.contenders[i];
    const auto value = value_of(d.scenario, c);
    const auto ratio = times_the_baseline(d.scenario, c, d.contenders.front());
    const auto bound = certified_bound(d.scenario, c);
    rows.push_back(
        {ranks[i] ? std::to_string(*ranks[i]) : "", one_line(c.name, 60),
         c.quality ? fmt::format("{:.4f}", c.quality->estimate) : "",
         value ? fmt::format("{:.4g}", *value) : "", bound ? fmt::format("{:.4g}", *bound) : "",
         ratio ? fmt::format("{:.3f} [{:.3f}, {:.3f}]", ratio->estimate, ratio->low, ratio->high) : "",
         verdict_of(d, c)});
  }
  return rows;
}

inline std::string match_text(const RunDocument& d) {
  return match_title(d) + "\n\n" + tinytorch::document::text_table(match_rows(d));
}

}  // namespace tinymlperf::judge
