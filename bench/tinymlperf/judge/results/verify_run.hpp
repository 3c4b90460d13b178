// Recomputes the published numbers of a run.json from its samples, for models and for kernels.
//
// Values, ratios, qualities with their intervals, and the audits A1 to A7 and A13 to A16 follow from the
// samples and from the evidence. Everything else is covered by the chain of digests alone (hash_chain.hpp).
#pragma once

#include <string>
#include <tinymlperf/judge/results/any_run.hpp>
#include <tinymlperf/judge/results/measured_audits.hpp>
#include <tinytorch/benchmarking/bootstrap.hpp>

namespace tinymlperf {

enum class RunAge { present, older };  // older: of a judge that kept no evidence of its audits

inline bool is_run(const Json& document) {
  if (judge::is_kernel_run(document)) return true;
  if (!document.is_object() || !document.contains("schema")) return false;
  const Json& schema = document.at("schema");
  return schema == "tinymlperf-run-2" || schema == "tinymlperf-run-3";
}

namespace detail {

// The quality by the samples of a record; empty if it has none. If the quality is an area under the ROC
// curve, only the estimate is compared (run_document.hpp), since its interval needs the scores.
inline std::optional<judge::Interval> quality_from_samples(const judge::ContenderRecord& c) {
  if (!c.minus_bits.empty()) return tinytorch::statistics::bootstrap_mean(c.minus_bits, {.draws = 2000});
  if (c.credit.empty()) return std::nullopt;
  return tinytorch::statistics::bootstrap_proportion(std::ranges::count(c.credit, '1'),
                                                     static_cast<int64_t>(c.credit.size()));
}

inline bool is_measured_audit(const std::string& id) {
  const bool late = id.size() == 3 && id.starts_with("A1") && id[2] >= '3' && id[2] <= '6';
  return late || (id.size() == 2 && id[0] == 'A' && id[1] >= '1' && id[1] <= '7');
}

// A failed audit other than the clock's puts its contender out, and the reason names it.
inline std::string audit_complaint(const judge::RunDocument& d, const judge::ContenderRecord& c, RunAge age) {
  if (age == RunAge::older && c.evidence.empty()) return "";
  std::vector<judge::AuditResult> measured;
  if (!c.evidence.empty())
    measured = judge::measured_audits(d.scenario, c.turns, c.evidence,
                                      judge::text_floor(d.quality_floor, c, d.contenders.front()));
  const auto named = [](const std::vector<judge::AuditResult>& all, const std::string& id) {
    return std::ranges::find(all, id, &judge::AuditResult::id);
  };
  for (const judge::AuditResult& m : measured) {
    const auto kept = named(c.audits, m.id);
    if (kept == c.audits.end()) return "audit " + m.id + " is missing, the evidence says: " + m.detail;
    if (kept->name != m.name || kept->passed != m.passed || kept->detail != m.detail)
      return "audit " + m.id + " is \"" + kept->detail + "\", the evidence says: " + m.detail;
    if (judge::accuses(m) && c.out.empty()) return "audit " + m.id + " failed, and it is not out";
  }
  for (const judge::AuditResult& a : c.audits) {
    if (!is_measured_audit(a.id) || (!a.passed && !c.out.empty())) continue;
    const auto twice = std::ranges::count(c.audits, a.id, &judge::AuditResult::id);
    if (twice > 1 || named(measured, a.id) == measured.end())
      return "audit " + a.id + " does not follow from any evidence";
  }
  return "";
}

// Describes the first statement of a document of models that its samples contradict; empty if there is none.
inline std::string samples_complaint(const judge::RunDocument& d, RunAge age) {
  if (d.scenario == judge::Scenario::time_to_quality) return "";
  for (const judge::ContenderRecord& c : d.contenders) {
    const std::string of = Json(c.name).dump(-1, ' ', true, Json::error_handler_t::replace) + ": ";
    if (c.credit.find_first_not_of("01") != std::string::npos) return of + "credit is 0 or 1 for each sample";
    if (const auto found = quality_from_samples(c);
        found && (!c.quality || !agree(interval_to_json(*found), interval_to_json(*c.quality))))
      return of + "quality is " + (c.quality ? show(interval_to_json(*c.quality)) : "missing") +
             ", the samples say " + show(interval_to_json(*found));
    if (const std::string complaint = audit_complaint(d, c, age); !complaint.empty()) return of + complaint;
  }
  return "";
}

}  // namespace detail

// The first number that does not follow from the samples; empty if all do. Throws std::invalid_argument if it
// is not a run.
inline std::string verify_run(const Json& given, RunAge age = RunAge::present) {
  Json document = given;
  if (age == RunAge::older && !document.contains(judge::kChain))
    document[judge::kChain] = judge::chain_of(document);
  const judge::AnyRun run = judge::read_any_run(document);
  const Json again = judge::to_json(run);
  const Json& contenders = document.at("contenders");
  for (size_t i = 0; i < contenders.size(); ++i)
    for (const auto& [key, value] : again.at("contenders")[i].items())
      if (!contenders[i].contains(key) || !detail::agree(contenders[i].at(key), value))
        return contenders[i].at("name").dump() + ": " + key + " is " +
               (contenders[i].contains(key) ? detail::show(contenders[i].at(key)) : "missing") +
               ", the samples say " + detail::show(value);
  if (const auto* d = std::get_if<judge::RunDocument>(&run))
    if (const std::string complaint = detail::samples_complaint(*d, age); !complaint.empty())
      return complaint;
  if (const std::string complaint = judge::chain_complaint(document); !complaint.empty()) return complaint;
  return detail::agree(document, again) ? "" : "keys or values that a run does not have";
}

// A contender that a file ranks, but for which it does not hold what its judge always writes: the audits with
// their evidence, and a quality with its samples. Empty: there is none.
inline std::string unfounded(const Json& document) {
  const judge::AnyRun run = judge::read_any_run(document);
  const auto* d = std::get_if<judge::RunDocument>(&run);
  if (!d || d->scenario == judge::Scenario::time_to_quality) return "";
  for (const judge::ContenderRecord& c : d->contenders) {
    if (!c.out.empty()) continue;
    if (c.evidence.empty()) return Json(c.name).dump() + ": it takes part without the evidence of its audits";
    if (d->scenario == judge::Scenario::server && !c.evidence.beside)
      return Json(c.name).dump() + ": it takes part without the evidence of audit A15";
    if (c.credit.empty() && c.minus_bits.empty() && c.wins.positives.empty())
      return Json(c.name).dump() + ": its quality has no samples";
  }
  return "";
}

// The first thing that is wrong with a run of this judge, as `verify` and a board that gets the run of a
// remote worker see it; empty: nothing. Throws std::invalid_argument if it is not a run.
inline std::string run_complaint(const Json& document) {
  const std::string wrong = verify_run(document);
  return wrong.empty() ? unfounded(document) : wrong;
}

}  // namespace tinymlperf
