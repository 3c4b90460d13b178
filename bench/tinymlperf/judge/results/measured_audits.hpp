// The audits A1 to A7 and A13 to A16 of a match of models, decided from numbers that the run holds
// (evidence.hpp). The judge and `verify` call the same functions, so an audit that was edited, added or
// removed is found.
//
// A2, A3, A13 and A16 measure a gain, and compare its interval with a bound (MLPerf's: inference_policies,
// compliance TEST04 and TEST05). There are three outcomes:
//
//   failed        the whole interval is above the bound, and above what the machine's caches alone can
//                 gain: neither noise nor a large table accuses anybody
//   passed        a gain of a tenth more than the bound is excluded
//   not decided   the samples are too few for this noise. The match measures A2 and A3 again, up to kLooks
//                 times, and their turns are pooled. What is still not decided is held for review, and
//                 so is a gain that caches can explain
//
// Repeated samples of an honest program are faster, too, if its table is larger than the caches. So a
// suspicion is compared with an honest control of the same size (match/cache_control.hpp).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tinymlperf/judge/results/run_document.hpp>
#include <tinymlperf/judge/scenarios/shared_prompts.hpp>
#include <tinytorch/benchmarking/paired_ratio.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::judge {

using tinytorch::benchmarking::block_values;
using tinytorch::benchmarking::more_is_better;

inline AuditResult agreement_audit(int64_t compared) {
  return {"A1", "agreement", compared > 0, fmt::format("{} timed answers are the graded ones", compared)};
}

inline constexpr int kLooks = 5;
inline constexpr double kExcludes = 1.1;  // times the bound
// The intervals of all looks together hold with 99 %.
inline constexpr double kConfidence = 1 - 0.01 / kLooks;

// The most that the caches of the machine can gain, by the control: 1 if it was not measured.
struct CacheGain {
  double ratio = 1;
  int64_t bytes = 0;
};
inline CacheGain cache_gain(const CacheEffect& caches, const std::vector<double>& repeated) {
  if (caches.empty()) return {};
  const auto gain = tinytorch::statistics::paired_ratio(caches.fresh, repeated, kConfidence);
  return {gain ? std::max(1.0, gain->high) : 1.0, caches.bytes};
}

// Decides an audit by comparing the interval of a gain with a bound.
inline AuditResult decide(std::string id, std::string name, const std::optional<Interval>& gain, double bound,
                          const std::string& what, const CacheGain& caches) {
  AuditResult out{std::move(id), std::move(name), false, ""};
  const bool suspicious = gain && gain->low > bound, fails = suspicious && gain->low > bound * caches.ratio;
  out.passed = gain && !suspicious && gain->high <= kExcludes * bound;
  if (!out.passed && !fails) out.detail = kNotDecided;
  out.detail += gain ? fmt::format("{} {:.2f} times as fast ({:g} %: {:.2f} to {:.2f}; at most {:.2f})", what,
                                   gain->estimate, 100 * kConfidence, gain->low, gain->high, bound)
                     : "too few samples to tell if " + what + " faster";
  if (suspicious && caches.bytes > 0)
    out.detail += fmt::format("; caches alone make an honest walk through {:.3g} MiB {:.2f} times as fast",
                              static_cast<double>(caches.bytes) / (1 << 20), caches.ratio);
  return out;
}

namespace detail {
// Compares as many turns of each kind; those of `quick` must not be faster.
inline AuditResult no_gain(std::string id, std::string name, Scenario s, const std::vector<Turn>& quick,
                           const std::vector<Turn>& slow, double bound, const std::string& what,
                           const CacheGain& caches) {
  const auto quantity = quantity_of(s);
  const std::vector<double> a = block_values(quantity, quick), b = block_values(quantity, slow);
  const bool more = more_is_better(quantity);
  const auto gain = tinytorch::statistics::paired_ratio(more ? a : b, more ? b : a, kConfidence);
  return decide(std::move(id), std::move(name), gain, bound, what, caches);
}

// Pairs of a new query and of the repeated one that is nearest to it in the same turn. Other work on the
// machine comes in bursts, which such neighbours mostly share.
struct Pairs {
  std::vector<double> fresh, again;

  void add(const std::vector<double>& latencies, const std::string& marks) {
    constexpr size_t kNear = 8;
    std::vector<bool> used(marks.size());
    const auto is_free = [&](size_t i) { return i < marks.size() && marks[i] != '1' && !used[i]; };
    for (size_t q = 0; q < marks.size(); ++q) {
      if (marks[q] != '1') continue;
      for (size_t away = 1; away <= kNear; ++away) {
        // The sides alternate, so that neither kind is the later one more often. Below 0 an index wraps.
        const bool left_first = fresh.size() % 2 == 0;
        const size_t first = left_first ? q - away : q + away, second = left_first ? q + away : q - away;
        if (!is_free(first) && !is_free(second)) continue;
        const size_t other = is_free(first) ? first : second;
        used[other] = true;
        fresh.push_back(latencies[q]), again.push_back(latencies[other]);
        break;
      }
    }
  }

  // Medians of neighbouring pairs, so that the intervals of long runs stay affordable.
  void shrink(size_t most) {
    const size_t each = (fresh.size() + most - 1) / most;
    if (each < 2) return;
    for (std::vector<double>* of : {&fresh, &again}) {
      std::vector<double> medians;
      for (size_t at = 0; at < of->size(); at += each)
        medians.push_back(tinytorch::statistics::median(
            std::vector<double>(of->begin() + static_cast<std::ptrdiff_t>(at),
                                of->begin() + static_cast<std::ptrdiff_t>(std::min(at + each, of->size())))));
      *of = std::move(medians);
    }
  }
};
}  // namespace detail

// Short queries are noisier, so their bound is wider.
inline double bound_of_gain(const std::vector<Turn>& turns) {
  constexpr double kShort = 0.2e-3;
  double shortest = 1;
  for (const Turn& turn : turns)
    shortest = std::min(shortest, *std::min_element(turn.latencies.begin(), turn.latencies.end()));
  return shortest < kShort ? 1.2 : 1.1;
}

// New and repeated queries of the same timed turns: whoever is faster for the repeated ones remembers. There
// is nothing to recognise, since these are the queries that count.
inline AuditResult repeated_audit(const std::vector<Turn>& turns, const std::vector<std::string>& marks,
                                  const CacheEffect& caches = {}) {
  AuditResult out{"A13", "repeated", false, "its marks do not fit its turns"};
  if (marks.size() != turns.size()) return out;
  detail::Pairs pairs;
  for (size_t t = 0; t < turns.size(); ++t) {
    if (marks[t].size() != turns[t].latencies.size()) return out;
    pairs.add(turns[t].latencies, marks[t]);
  }
  pairs.shrink(300);
  std::optional<Interval> gain;
  if (!pairs.fresh.empty()) gain = tinytorch::statistics::paired_ratio(pairs.fresh, pairs.again, kConfidence);
  return decide(out.id, out.name, gain, bound_of_gain(turns),
                "within the timed turns, repeated samples are answered", cache_gain(caches, caches.known));
}

inline AuditResult same_sample_audit(Scenario s, const std::vector<Turn>& known,
                                     const std::vector<Turn>& same, const CacheEffect& caches = {}) {
  return detail::no_gain("A2", "same sample", s, same, known, bound_of_gain(known),
                         "the same sample again is answered", cache_gain(caches, caches.again));
}

inline AuditResult other_seed_audit(Scenario s, const std::vector<Turn>& known,
                                    const std::vector<Turn>& fresh, const CacheEffect& caches = {}) {
  return detail::no_gain("A3", "other seed", s, known, fresh, 1.05,
                         "samples that were asked before are answered", cache_gain(caches, caches.known));
}

// Each continuation was compared with its length and its stream when it ended (continuation_of); a
// contender that failed there is out.
inline AuditResult length_audit(const std::vector<Turn>& turns, int64_t asked) {
  int64_t continuations = 0, tokens = 0;
  for (const Turn& turn : turns)
    for (const int64_t n : turn.tokens) ++continuations, tokens += n;
  return {"A4", "output length", continuations > 0 && tokens == continuations * asked,
          fmt::format("{} tokens in {} continuations of {}: none ended early, and each is what was streamed",
                      tokens, continuations, asked)};
}

// The least quality of the benchmark, if audit A14 is made: if a model and the baseline both reach it, and
// the judge itself answers for the baseline (T0). The process of another entry could say what it likes of a
// rival's text.
inline std::optional<double> text_floor(double floor, const ContenderRecord& own,
                                        const ContenderRecord& baseline) {
  const auto good = [&](const ContenderRecord& c) { return c.quality && c.quality->estimate >= floor; };
  return baseline.tier == "T0" && good(own) && good(baseline) ? std::optional(floor) : std::nullopt;
}

// Generated text must be at least as likely by the baseline's scores as a model must find real text. A
// submission that streams what its model would not say can call its own tokens likely; the baseline does not.
// `floor`: minus bits, from text_floor().
inline AuditResult text_audit(const std::vector<double>& bits, double floor) {
  AuditResult out{"A14", "generated text", false, "its text was not scored"};
  if (bits.empty()) return out;
  const double mean = std::accumulate(bits.begin(), bits.end(), 0.0) / static_cast<double>(bits.size());
  out.passed = mean <= -floor;
  out.detail = fmt::format("{:.3f} bits a token by the baseline's scores of {} tokens; at most {:.3f}", mean,
                           bits.size(), -floor);
  return out;
}

// The answers of a server that were given beside other queries, by how many of them were compared with those
// of a process that was asked alone. Each that differed put its contender out (match/beside.hpp).
inline AuditResult invariance_audit(int64_t compared) {
  AuditResult out{"A15", "batch invariance", compared > 0, ""};
  out.detail = compared > 0 ? fmt::format(
                                  "{} answers that were given beside other queries are those of a "
                                  "process that was asked alone",
                                  compared)
                            : std::string(kNotMade) + "no query waited beside another";
  return out;
}

// Seconds to the first token, of the first prompts of groups beside near misses of one kind.
inline detail::Pairs near_miss_pairs(const std::vector<Turn>& turns, const std::vector<std::string>& prefixes,
                                     char kind) {
  detail::Pairs pairs;
  for (size_t t = 0; t < turns.size(); ++t) {
    std::vector<double> seconds;
    std::string marks;
    for (size_t q = 0; q < prefixes[t].size(); ++q) {
      if (prefixes[t][q] != PrefixMark::kFirst && prefixes[t][q] != kind) continue;
      seconds.push_back(turns[t].to_first[q]), marks += prefixes[t][q] == kind ? '0' : '1';
    }
    pairs.add(seconds, marks);
  }
  pairs.shrink(300);
  return pairs;
}

// Near misses that share no beginning with what their salt has seen: whoever has their first token sooner
// than that of the first prompts of groups reuses what another prompt or another salt has left.
inline AuditResult near_miss_audit(const std::vector<Turn>& turns, const Evidence& e) {
  AuditResult out{"A16", "near misses", false, "its marks do not fit its turns"};
  if (e.prefixes.size() != turns.size()) return out;
  for (size_t t = 0; t < turns.size(); ++t)
    if (e.prefixes[t].size() != turns[t].to_first.size()) return out;
  const auto of_kind = [&](char kind, const std::string& what) {
    const detail::Pairs pairs = near_miss_pairs(turns, e.prefixes, kind);
    std::optional<Interval> gain;
    if (!pairs.fresh.empty())
      gain = tinytorch::statistics::paired_ratio(pairs.fresh, pairs.again, kConfidence);
    return decide(out.id, out.name, gain, 1.2, what + " have their first token", {});
  };
  const AuditResult start = of_kind(PrefixMark::kOtherStart, "prompts with another first byte"),
                    salt = of_kind(PrefixMark::kOtherSalt, "prompts with another salt");
  const bool start_is_worse = !start.passed && (salt.passed || is_decided(start));
  return start_is_worse ? start : salt;
}

// An answer over a pipe has left its sender and cannot change.
inline AuditResult fingerprint_audit(int64_t answers) {
  return {"A5", "output fingerprint", answers > 0,
          fmt::format("{} answers had left their process, whole, when their times ended", answers)};
}

// Seconds of a sample in the fastest turn.
inline double fastest_of(const std::vector<Turn>& turns) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const Turn& t : turns) fastest = std::min(fastest, t.seconds / static_cast<double>(t.samples));
  return fastest;
}
// `least`: seconds of a sample at the machine's peak.
inline AuditResult floor_audit(const std::vector<Turn>& turns, double least) {
  const double fastest = fastest_of(turns);
  return {
      "A6", "floor", fastest >= least,
      fmt::format("fastest turn: {:.3g} s a sample; this machine needs at least {:.3g} s", fastest, least)};
}

// Seconds of a fixed piece of work before each turn. They describe the run and not the contender.
inline AuditResult clock_audit(std::span<const double> reference_seconds) {
  if (reference_seconds.empty()) return {"A7", "clock", false, "not measured"};
  const double best = *std::min_element(reference_seconds.begin(), reference_seconds.end());
  const auto slow = std::count_if(reference_seconds.begin(), reference_seconds.end(),
                                  [&](double x) { return best / x < 0.75; });
  return {"A7", "clock", 2 * slow <= static_cast<std::ptrdiff_t>(reference_seconds.size()),
          fmt::format("{} of {} turns ran at less than 75 % of the fastest clock", slow,
                      reference_seconds.size())};
}

// The questions of A2 and A3 are asked one by one where a scenario's own timing or question does not fit.
inline Scenario audited_form(Scenario s) {
  return s == Scenario::server || generates(s) ? Scenario::single_stream : s;
}

// True if it puts its contender out. The clock describes the machine.
inline bool accuses(const AuditResult& a) {
  return !a.passed && was_made(a) && is_decided(a) && a.id != "A7";
}

// True if it puts its contender out unless caches explain the gain.
inline bool is_about_gain(const AuditResult& a) { return a.id == "A2" || a.id == "A3" || a.id == "A13"; }

// Computes the measured audits in the order in which a record holds them. `floor` is that of text_floor(),
// where texts are continued.
inline std::vector<AuditResult> measured_audits(Scenario s, const std::vector<Turn>& turns, const Evidence& e,
                                                std::optional<double> floor) {
  const Scenario form = audited_form(s);
  std::vector<AuditResult> out{agreement_audit(e.compared)};
  if (!e.known.empty()) {
    out.push_back(same_sample_audit(form, e.known, e.same, e.caches));
    out.push_back(other_seed_audit(form, e.known, e.fresh, e.caches));
  }
  if (generates(s)) out.push_back(length_audit(turns, e.tokens));
  out.push_back(fingerprint_audit(e.answered + e.compared));
  out.push_back(floor_audit(turns, e.least_seconds));
  out.push_back(clock_audit(e.clock));
  const bool keeps = s == Scenario::shared_prefix;  // what was kept may be used again
  if (s != Scenario::offline && !keeps) out.push_back(repeated_audit(turns, e.first_time, e.caches));
  if (generates(s) && floor) out.push_back(text_audit(e.text_bits, *floor));
  if (e.beside) out.push_back(invariance_audit(*e.beside));
  if (keeps) out.push_back(near_miss_audit(turns, e));
  return out;
}

}  // namespace tinymlperf::judge
