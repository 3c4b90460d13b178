// The raw measurements behind the audits of a contender, so that anyone can decide the audits again.
//
// In run.json, for a contender that was audited:
//   "evidence": {"answered": 512, "compared": 900, "tokens": 0, "least_seconds": 1e-7, "clock": [1e-4, ...],
//                "known": [turn, ...], "same": [turn, ...], "fresh": [turn, ...],
//                "first_time": ["100110", ...], "text_bits": [], "beside": 256, "prefixes": ["0112", ...],
//                "caches": {"bytes": 268435456, "fresh": [2e-4, ...], "again": [...], "known": [...]}}
// "beside" is there only for a server, "prefixes" only in the scenario shared_prefix, and "caches" only if
// repeated samples were so much faster that a control was measured.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <tinymlperf/support/json_fields.hpp>
#include <tinytorch/benchmarking/turns.hpp>
#include <vector>

namespace tinymlperf::judge {

using tinytorch::benchmarking::Turn;

// Seconds of the honest control's queries (match/cache_control.hpp): new ones, ones that repeat the query
// just before, and ones of samples that were asked among all others. Empty: it was not measured.
struct CacheEffect {
  int64_t bytes = 0;  // of its table
  std::vector<double> fresh = {}, again = {}, known = {};

  bool empty() const { return fresh.empty(); }
};

struct Evidence {
  int64_t answered = 0, compared = 0;  // samples with an answer; later answers that were compared with it
  int64_t tokens = 0;                  // tokens of a continuation, where texts are continued; otherwise 0
  double least_seconds = 0;            // what a sample takes at the machine's measured peak; 0: not known
  std::vector<double> clock = {};      // seconds of a fixed piece of work, before each turn of the match
  std::vector<Turn> known = {}, same = {}, fresh = {};  // turns of the audits A2 and A3
  // Each turn of the match has a text with a character for each query: '1' if it held a sample that was never
  // asked before (audit A13).
  std::vector<std::string> first_time = {};
  // Where texts are continued, these are the bits of some tokens by the baseline's scores (audit A14).
  std::vector<double> text_bits = {};
  // The number of a server's answers beside other queries that were compared with those of a process that was
  // asked alone (audit A15).
  std::optional<int64_t> beside = {};
  // The PrefixMarks of each turn's prompts, in the scenario shared_prefix (audit A16).
  std::vector<std::string> prefixes = {};
  CacheEffect caches = {};

  bool empty() const { return answered == 0 && known.empty(); }
};

inline Json to_json(const Turn& t) {
  Json out{{"seconds", t.seconds}, {"samples", t.samples}, {"latencies", t.latencies}};
  if (t.rate > 0) out["rate"] = t.rate;
  if (!t.tokens.empty()) out["tokens"] = t.tokens, out["to_first"] = t.to_first;
  return out;
}

namespace detail {

inline Turn read_turn(const Json& j, const std::string& of) {
  Turn t{j.at("seconds").get<double>(),
         whole(j.at("samples")),
         j.at("latencies").get<std::vector<double>>(),
         j.value("rate", 0.0),
         {},
         {}};
  if (j.contains("tokens")) {
    t.tokens = wholes(j.at("tokens"));
    t.to_first = j.at("to_first").get<std::vector<double>>();
  }
  const auto positive = [](auto x) { return x > 0; };
  const bool good = t.seconds > 0 && t.samples > 0 && t.rate >= 0 && !t.latencies.empty() &&
                    std::ranges::all_of(t.latencies, positive) && std::ranges::all_of(t.tokens, positive) &&
                    (t.tokens.empty() || t.tokens.size() == t.latencies.size()) &&
                    t.to_first.size() == t.tokens.size() && std::ranges::all_of(t.to_first, positive);
  if (!good) throw std::invalid_argument("run file: " + of + ": a turn needs samples and positive times");
  return t;
}

inline constexpr const char* kEvidenceTurns[] = {"known", "same", "fresh"};
inline constexpr std::vector<Turn> Evidence::*kEvidenceMembers[] = {&Evidence::known, &Evidence::same,
                                                                    &Evidence::fresh};

}  // namespace detail

inline Json to_json(const Evidence& e) {
  Json out{{"answered", e.answered},           {"compared", e.compared}, {"tokens", e.tokens},
           {"least_seconds", e.least_seconds}, {"clock", e.clock},       {"first_time", e.first_time},
           {"text_bits", e.text_bits}};
  if (e.beside) out["beside"] = *e.beside;
  if (!e.prefixes.empty()) out["prefixes"] = e.prefixes;
  for (size_t i = 0; i < 3; ++i) {
    Json turns = Json::array();
    for (const Turn& t : e.*detail::kEvidenceMembers[i]) turns.push_back(to_json(t));
    out[detail::kEvidenceTurns[i]] = turns;
  }
  const CacheEffect& c = e.caches;
  if (!c.empty())
    out["caches"] = {{"bytes", c.bytes}, {"fresh", c.fresh}, {"again", c.again}, {"known", c.known}};
  return out;
}

namespace detail {

inline CacheEffect read_caches(const Json& j, const std::string& of) {
  CacheEffect c{whole(j.at("bytes")), j.at("fresh").get<std::vector<double>>(),
                j.at("again").get<std::vector<double>>(), j.at("known").get<std::vector<double>>()};
  bool good = c.bytes >= 0 && !c.empty() && c.fresh.size() <= 100;
  for (const auto* times : {&c.fresh, &c.again, &c.known})
    good = good && times->size() == c.fresh.size() &&
           std::ranges::all_of(*times, [](double x) { return x > 0 && std::isfinite(x); });
  if (!good)
    throw std::invalid_argument("run file: " + of +
                                ": its control of caches needs as many positive times of each kind");
  return c;
}

}  // namespace detail

// Throws std::invalid_argument; `of` is the name of the contender.
inline Evidence read_evidence(const Json& j, const std::string& of) {
  Evidence e{whole(j.at("answered")), whole(j.at("compared")), whole(j.at("tokens")),
             j.at("least_seconds").get<double>(), j.at("clock").get<std::vector<double>>()};
  const bool good = e.answered >= 0 && e.compared >= 0 && e.tokens >= 0 && e.least_seconds >= 0 &&
                    std::isfinite(e.least_seconds) &&
                    std::ranges::all_of(e.clock, [](double x) { return x > 0; });
  if (!good) throw std::invalid_argument("run file: " + of + ": its evidence holds impossible numbers");
  e.first_time = j.at("first_time").get<std::vector<std::string>>();
  e.text_bits = j.at("text_bits").get<std::vector<double>>();
  if (!std::ranges::all_of(e.text_bits, [](double x) { return x >= 0 && std::isfinite(x); }))
    throw std::invalid_argument("run file: " + of + ": bits of a text are numbers from 0 on");
  if (j.contains("beside")) e.beside = whole(j.at("beside"));
  if (e.beside.value_or(0) < 0)
    throw std::invalid_argument("run file: " + of + ": its evidence holds impossible numbers");
  e.prefixes = j.value("prefixes", e.prefixes);
  for (const std::string& marks : e.prefixes)
    if (marks.find_first_not_of("01234") != std::string::npos)
      throw std::invalid_argument("run file: " + of + ": a prompt has an unknown mark");
  for (size_t i = 0; i < 3; ++i)
    for (const Json& t : j.at(detail::kEvidenceTurns[i]))
      (e.*detail::kEvidenceMembers[i]).push_back(detail::read_turn(t, of));
  if (j.contains("caches")) e.caches = detail::read_caches(j.at("caches"), of);
  return e;
}

}  // namespace tinymlperf::judge
