// The pages' data as JSON, field by field as in views.hpp. A number that is not finite is null.
#pragma once

#include <string>
#include <tinymlperf/board/pages/badges.hpp>
#include <tinymlperf/board/store/pareto.hpp>
#include <tinymlperf/board/store/source.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <vector>

namespace tinymlperf::board {

inline Json to_json(const std::optional<Interval>& i) { return i ? interval_to_json(*i) : Json(); }

inline const char* level_name(Level level) {
  return level == Level::audited ? "audited" : level == Level::rerun ? "rerun" : "self_reported";
}

inline Json to_json(const TableKey& k) {
  return {{"benchmark", k.benchmark}, {"division", k.division}, {"hardware", k.hardware}, {"tier", k.tier}};
}
inline Json to_json(const Cell& c) {
  return {{"scenario", c.scenario}, {"value", c.value}, {"ratio", to_json(c.ratio)}};
}
inline Json to_json(const Job& j) {
  return {{"id", j.id},
          {"submission", j.submission},
          {"name", j.name},
          {"kind", j.kind},
          {"benchmark", j.benchmark},
          {"scenario", j.scenario},
          {"state", state_name(j.state)},
          {"progress", share_of(j)},
          {"message", j.message},
          {"created", j.created},
          {"started", j.started},
          {"ended", j.ended},
          {"ahead", j.ahead},
          {"wait_seconds", j.wait ? Json(*j.wait) : Json()}};
}
inline Json to_json(const HistoryPoint& p) {
  return {{"date", p.date}, {"name", p.name}, {"submission", p.submission}, {"score", p.score}};
}
inline Json to_json(const Audit& a) {
  return {{"id", a.id}, {"name", a.name}, {"passed", a.passed}, {"detail", a.detail}};
}
inline Json to_json(const Similarity& l) {
  return {{"kind", l.kind},     {"submission", l.submission}, {"name", l.name},
          {"author", l.author}, {"shared", l.shared},         {"total", l.total}};
}
inline Json to_json(const File& f) {
  return {{"path", f.path}, {"sha256", f.sha256}, {"bytes", f.bytes}, {"text", f.text}};
}

template <class T>
Json to_json(const std::vector<T>& items) {
  Json out = Json::array();
  for (const T& item : items) out.push_back(to_json(item));
  return out;
}
// Pairs stay in their order.
inline Json pairs_to_json(const std::vector<std::pair<std::string, std::string>>& items, const char* first,
                          const char* second) {
  Json out = Json::array();
  for (const auto& [a, b] : items) out.push_back({{first, a}, {second, b}});
  return out;
}

inline Json to_json(const std::optional<KernelCount>& k) {
  if (!k) return {};
  Json fast;
  if (k->fast) fast = {{"1", (*k->fast)[0]}, {"1.5", (*k->fast)[1]}, {"2", (*k->fast)[2]}};
  return {{"ops_right", k->right}, {"ops", k->ops}, {"fast", fast}};
}
inline Json to_json(const OpRow& o) {
  return {{"op", o.op},
          {"state", o.state},
          {"reason", o.reason},
          {"times_the_baseline", to_json(o.ratio)},
          {"hidden_times_the_baseline", to_json(o.hidden)}};
}

inline Json to_json(const Row& r) {
  return {{"submission", r.submission},
          {"name", r.name},
          {"author", r.author},
          {"team", r.team},
          {"tier", r.tier},
          {"note", r.note},
          {"level", level_name(r.level)},
          {"rank", r.rank ? Json(r.rank) : Json()},
          {"not_ranked", r.not_ranked},
          {"score", to_json(r.score)},
          {"quality", to_json(r.quality)},
          {"cells", to_json(r.cells)},
          {"model_bytes", r.model_bytes ? Json(r.model_bytes) : Json()},
          {"peak_bytes", r.peak_bytes ? Json(r.peak_bytes) : Json()},
          {"on_front", r.on_front},
          {"date", r.date},
          {"kernels", to_json(r.kernels)}};
}
inline Json to_json(const Table& t, const Front& f) {
  return {{"scenario", f.scenario},
          {"memory", name_of(f.memory)},
          {"hypervolume", f.hypervolume ? Json(*f.hypervolume) : Json()},
          {"reference", f.hypervolume ? Json{{"quality", t.quality_floor},
                                             {"time_of_the_baseline", f.reference_time},
                                             {"bytes", f.reference_bytes ? Json(f.reference_bytes) : Json()}}
                                      : Json()}};
}
inline Json to_json(const Table& t) {
  return {{"key", to_json(t.key)},
          {"task", t.task},
          {"quality_metric", t.quality_metric},
          {"quality_floor", t.quality_floor},
          {"scenarios", pairs_to_json(t.scenarios, "name", "measure")},
          {"kernels", t.kernels},
          {"front", t.kernels ? Json() : to_json(t, t.front)},
          {"rows", to_json(t.rows)}};
}
inline Json to_json(const Category& c) {
  return {{"title", c.title},
          {"explanation", c.explanation},
          {"key", to_json(c.key)},
          {"leader", c.leader ? to_json(*c.leader) : Json()},
          {"value", c.value}};
}
inline Json to_json(const FrontPage& f) {
  return {{"categories", to_json(f.categories)}, {"tables", to_json(f.tables)}, {"queue", to_json(f.queue)}};
}
inline Json to_json(const Appeal& a) {
  return {{"id", a.id},
          {"note", a.note},
          {"date", a.date},
          {"answer", a.answered.empty() ? Json() : Json(a.answer)},
          {"answered", a.answered.empty() ? Json() : Json(a.answered)}};
}
inline Json to_json(const Review& r) {
  return {{"released", r.released}, {"reason", r.reason}, {"date", r.date}};
}
inline Json to_json(const std::optional<Hiding>& h) {
  return h ? Json{{"by_owner", h->by_owner}, {"reason", h->reason}, {"date", h->date}} : Json();
}
inline Json to_json(const std::optional<TokenTimes>& t) {
  return t ? Json{{"to_first_seconds", t->to_first}, {"per_token_seconds", t->per_token}} : Json();
}
inline Json to_json(const Run& r) {
  return {{"id", r.id},
          {"benchmark", r.benchmark},
          {"scenario", r.scenario},
          {"run_class", r.run_class},
          {"hardware", r.hardware},
          {"date", r.date},
          {"measure", r.measure},
          {"baseline", r.baseline},
          {"load", r.load},
          {"out", r.out},
          {"refused", r.refused},
          {"appeal", r.appeal ? to_json(*r.appeal) : Json()},
          {"held", r.held},
          {"reviews", to_json(r.reviews)},
          {"ratio", to_json(r.ratio)},
          {"quality", to_json(r.quality)},
          {"turns", r.turns},
          {"baseline_turns", r.baseline_turns},
          {"audits", to_json(r.audits)},
          {"kernels", to_json(r.kernels)},
          {"ops", to_json(r.ops)},
          {"peak_bytes", r.peak_bytes ? Json(r.peak_bytes) : Json()},
          {"tokens", to_json(r.tokens)},
          {"baseline_tokens", to_json(r.baseline_tokens)},
          {"system", pairs_to_json(r.system, "name", "value")},
          {"seed", std::to_string(r.seed)}};  // 64 bits: as text
}
inline Json to_json(const Submission& s) {
  return {{"id", s.id},
          {"bundle", s.bundle},
          {"name", s.name},
          {"author", s.author},
          {"team", s.team},
          {"division", s.division},
          {"tier", s.tier},
          {"note", s.note},
          {"licence", s.licence},
          {"date", s.date},
          {"benchmarks", s.benchmarks},
          {"scenarios", s.scenarios},
          {"level", level_name(s.level)},
          {"claims", pairs_to_json(s.claims, "metric", "value")},
          {"files", to_json(s.files)},
          {"runs", to_json(s.runs)},
          {"jobs", to_json(s.jobs)},
          {"replaced", s.replaced},
          {"compiled", s.compiled},
          {"reasons", s.reasons},
          {"likenesses", to_json(s.similarities)},
          {"difference", s.difference},
          {"hidden", to_json(s.hiding)},
          {"sealed_until", s.sealed_until ? Json(*s.sealed_until) : Json()}};
}
inline Json to_json(const Accepted& a) {
  return {
      {"submission", a.submission}, {"job", a.job ? Json(a.job) : Json()}, {"known_before", a.known_before}};
}

// Broken UTF-8 becomes U+FFFD.
inline std::string json_text(const Json& j) {
  return j.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tinymlperf::board
