// run.json: a match as data. It holds every sample, so that the numbers can be recomputed. With comments
// behind --:
//
//   {"schema": "tinymlperf-run-3", "benchmark": "dig", "scenario": "single_stream", "division": "open",
//    "class": "smoke", "hardware": "cpu-mt", "date": "2026-01-31T12:00:00Z", "seed": 5,
//    "hidden_samples": 512, "quality_metric": "accuracy", "quality_floor": 0.8,
//    "machine": {...}, "sandbox": {...},
//    "text": {"file": "mine.txt", "bytes": 2000000, "held_out": 1200000},  -- only of lm on a user's text
//    "contenders": [{                                      -- the first is the baseline
//      "name": "lenet", "bundle": "sha256 or empty", "tier": "T0", "out": "why, or empty",
//      "quality": {"estimate": 0.99, "low": 0.98, "high": 0.995} or null,
//      "credit": "1101...",                                -- per sample, if quality is their mean
//      "minus_bits": [-1.5, ...],                          -- of lm, per sample; quality is their mean
//      "wins": {"positives": [39996, ...], "negatives": [...]},  -- of ad (benchmarking/paired_auc.hpp)
//      "replaced": ["tinytorch/tensor/strides.hpp", ...],  -- the library's headers that its own replace
//      "worker": "build/student/bin/tinymlperf",           -- a student's program that answers
//      "compiled": true,                                   -- its forward pass ran by tt::compile
//      "model_bytes": 1000, "multiply_adds": 0, "peak_bytes": 0,  -- 0: not known
//      "turns": [{"seconds": 0.1, "samples": 12, "latencies": [0.008, ...]}, ...],  -- two of each round
//      "audits": [{"id": "A2", "name": "same sample", "passed": true, "detail": "..."}],
//      "evidence": {...},                                  -- their measurements (evidence.hpp)
//      "value": 0.0081, "certified": 0.0083 or null,       -- the percentile and its 99 % bound
//      "times_the_baseline": {"estimate": 1.2, "low": 1.1, "high": 1.3} or null}],
//    "chain": ["sha256", ...]}                             -- over all of the above (hash_chain.hpp)
//
// A match of trainings is "tinymlperf-run-2". Instead of turns each contender has
//   "training": [{"seed": 7, "limit": 600, "times": [0.5, 1.1], "qualities": [0.8, 0.96],
//                 "ended": "why not, or empty", "seconds": 1.1, "best": 0.96}, ...]
// "seconds", "best", the quality and the last two lines of a contender follow from the samples: verify()
// recomputes them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tinymlperf/judge/results/evidence.hpp>
#include <tinymlperf/judge/results/hash_chain.hpp>
#include <tinymlperf/judge/results/training_result.hpp>
#include <tinymlperf/judge/scenarios/scenario.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <tinytorch/benchmarking/paired_auc.hpp>
#include <tinytorch/benchmarking/rounds.hpp>
#include <tinytorch/benchmarking/turns.hpp>
#include <vector>

namespace tinymlperf::judge {

using tinytorch::statistics::Interval;

// The measure of a turn in a scenario, and if more or less of it is better.
struct Measure {
  const char* name;
  const char* unit;
  bool higher_is_better;
};
inline Measure measure_of(Scenario s) {
  switch (s) {
    case Scenario::single_stream:
      return {"p90 latency", "s", false};
    case Scenario::multi_stream:
      return {"p99 latency of 8", "s", false};
    case Scenario::offline:
      return {"throughput", "samples/s", true};
    case Scenario::server:
      return {"rate within the bound", "queries/s", true};
    case Scenario::generation:
      return {"time per token", "s", false};
    case Scenario::shared_prefix:
      return {"prompts answered", "prompts/s", true};
    case Scenario::time_to_quality:
      return {"time to quality", "s", false};
  }
  throw std::logic_error("a scenario without a measure");
}

// The quantity of a turn; training runs have none.
inline tinytorch::benchmarking::Quantity quantity_of(Scenario s) {
  using tinytorch::benchmarking::Quantity;
  if (s == Scenario::time_to_quality) throw std::logic_error("training runs are not turns");
  // A mean, so that in shared_prefix those prompts count, too, that find nothing that was kept.
  if (s == Scenario::offline || s == Scenario::shared_prefix) return Quantity::throughput;
  if (s == Scenario::server) return Quantity::rate;
  if (s == Scenario::multi_stream) return Quantity::p99_latency;
  return s == Scenario::generation ? Quantity::time_per_token : Quantity::p90_latency;
}

inline double value_of(Scenario s, const Turn& turn) {
  return tinytorch::benchmarking::value_of(quantity_of(s), turn);
}

// Each round as one number of which less is better.
inline std::vector<double> block_costs(Scenario s, tinytorch::benchmarking::Turns turns) {
  std::vector<double> out = tinytorch::benchmarking::block_values(quantity_of(s), turns);
  if (tinytorch::benchmarking::more_is_better(quantity_of(s)))
    for (double& x : out) x = 1 / x;
  return out;
}

struct AuditResult {
  std::string id, name;  // "A2", "same sample"
  bool passed = false;
  std::string detail;
};

// An audit for which this machine lacks the means is neither passed nor failed; its detail begins with this.
inline constexpr std::string_view kNotMade = "not made: ";
inline bool was_made(const AuditResult& a) { return !a.detail.starts_with(kNotMade); }
// An audit whose samples are too few for the machine's noise is neither, too; its detail begins with this.
inline constexpr std::string_view kNotDecided = "not decided: ";
inline bool is_decided(const AuditResult& a) { return a.passed || !a.detail.starts_with(kNotDecided); }

struct ContenderRecord {
  std::string name;
  std::string bundle;  // SHA-256 of its bundle; empty: it is not from one
  std::string tier = "T0";
  std::string out;  // why it is out; empty: it is in
  std::optional<Interval> quality;
  std::string credit;  // '1' or '0' per sample of the hidden set, if quality is their mean; else empty
  std::vector<double> minus_bits;             // per sample, if quality is their mean; else empty
  tinytorch::statistics::PairWins wins = {};  // if quality is an area under the ROC curve; else empty
  int64_t model_bytes = 0, peak_bytes = 0;
  int64_t multiply_adds = 0;  // for one sample, if the judge can count them; otherwise 0
  std::vector<Turn> turns;    // two of each round, in the order of time
  TrainingRuns training;      // instead of turns, in time_to_quality
  std::vector<AuditResult> audits;
  std::vector<std::string> replaced =
      {};                   // headers of the library that its own replace (entries/header_set.hpp)
  std::string worker = {};  // a student's program that answers for it; empty: the judge's
  bool compiled = false;    // its forward pass ran by tt::compile, as its model.json asks
  Evidence evidence = {};   // the measurements of the audits; empty: it was not audited, or not in turns
};

struct RunDocument {
  std::string benchmark;
  Scenario scenario = Scenario::single_stream;
  std::string division = "open";  // or "closed": keeps the baseline's quality
  std::string run_class, hardware, date;
  uint64_t seed = 0;  // seed of the hidden set and of the order
  int64_t hidden_samples = 0;
  std::string quality_metric;
  double quality_floor = 0;
  Json machine, sandbox;
  std::vector<ContenderRecord> contenders;  // the first is the baseline
  Json text = {};                           // describes the user's text of the hidden set; otherwise null
};

// The ratio of a contender to the baseline, with its 95 % interval; above 1 is better. nullopt if either is
// out.
inline std::optional<Interval> times_the_baseline(Scenario s, const ContenderRecord& c,
                                                  const ContenderRecord& baseline) {
  if (!c.out.empty() || !baseline.out.empty()) return std::nullopt;
  if (s == Scenario::time_to_quality) {
    if (&c == &baseline) return Interval{1, 1, 1};
    return times_faster(c.training, baseline.training);
  }
  return tinytorch::benchmarking::times_better_of_rounds(quantity_of(s), c.turns, baseline.turns);
}

// The median of a contender's turns, or of its blocks of several rounds; empty before its first. For training
// runs the mean without the fastest and the slowest.
inline std::optional<double> value_of(Scenario s, const ContenderRecord& c) {
  if (s == Scenario::time_to_quality) return summarize(c.training).seconds;
  return tinytorch::benchmarking::value_of(quantity_of(s), tinytorch::benchmarking::pooled_turns(c.turns));
}

// The upper bound of the scenario's percentile at 99 % (benchmarking/turns.hpp); empty if the scenario has
// none, or too few queries.
inline std::optional<double> certified_bound(Scenario s, const ContenderRecord& c) {
  if (s == Scenario::time_to_quality) return std::nullopt;
  return tinytorch::benchmarking::certified_bound(quantity_of(s), c.turns);
}

// The median over turns of the median over queries; empty if answers are not streamed.
inline std::optional<double> time_to_first_token(const ContenderRecord& c) {
  std::vector<double> turns;
  for (const Turn& t : c.turns)
    if (!t.to_first.empty()) turns.push_back(tinytorch::statistics::median(t.to_first));
  if (turns.empty()) return std::nullopt;
  return tinytorch::statistics::median(turns);
}

// One value for each turn, block of several rounds, or training run, in the order of time.
inline std::vector<double> values_of(Scenario s, const ContenderRecord& c) {
  if (s == Scenario::time_to_quality) return seconds_of(c.training);
  std::vector<double> out;
  for (const Turn& t : tinytorch::benchmarking::pooled_turns(c.turns)) out.push_back(value_of(s, t));
  return out;
}

inline Scenario scenario_named(const std::string& name) {
  for (const auto s : {Scenario::single_stream, Scenario::multi_stream, Scenario::offline, Scenario::server,
                       Scenario::generation, Scenario::shared_prefix, Scenario::time_to_quality})
    if (name == name_of(s)) return s;
  throw std::invalid_argument("there is no scenario \"" + name +
                              "\"; there are single_stream, multi_stream, offline, server, generation, "
                              "shared_prefix, time_to_quality");
}

inline Json to_json(const ContenderRecord& c, Scenario s, const ContenderRecord& baseline) {
  Json turns = Json::array(), audits = Json::array();
  for (const Turn& t : c.turns) turns.push_back(to_json(t));
  for (const AuditResult& a : c.audits)
    audits.push_back({{"id", a.id}, {"name", a.name}, {"passed", a.passed}, {"detail", a.detail}});
  const auto value = value_of(s, c);
  const auto ratio = times_the_baseline(s, c, baseline);
  Json out{{"name", c.name},
           {"bundle", c.bundle},
           {"tier", c.tier},
           {"out", c.out},
           {"quality", c.quality ? interval_to_json(*c.quality) : Json()},
           {"credit", c.credit},
           {"model_bytes", c.model_bytes},
           {"multiply_adds", c.multiply_adds},
           {"peak_bytes", c.peak_bytes},
           {"audits", audits},
           {"value", value ? Json(*value) : Json()},
           {"times_the_baseline", ratio ? interval_to_json(*ratio) : Json()}};
  if (!c.minus_bits.empty()) out["minus_bits"] = c.minus_bits;
  if (!c.wins.positives.empty())
    out["wins"] = {{"positives", c.wins.positives}, {"negatives", c.wins.negatives}};
  if (!c.replaced.empty()) out["replaced"] = c.replaced;
  if (!c.worker.empty()) out["worker"] = c.worker;
  if (c.compiled) out["compiled"] = true;
  if (!c.evidence.empty()) out["evidence"] = to_json(c.evidence);
  if (s != Scenario::time_to_quality) {
    out["turns"] = turns;
    const auto bound = certified_bound(s, c);
    out["certified"] = bound ? Json(*bound) : Json();
    return out;
  }
  const auto quality = quality_of(c.training);
  out["quality"] = quality ? interval_to_json(*quality) : Json();
  out["training"] = Json::array();
  for (const TrainingRun& r : c.training) out["training"].push_back(to_json(r));
  return out;
}

inline const char* schema_of(Scenario s) {
  return s == Scenario::time_to_quality ? "tinymlperf-run-2" : "tinymlperf-run-3";
}

inline Json to_json(const RunDocument& d) {
  Json contenders = Json::array();
  for (const ContenderRecord& c : d.contenders)
    contenders.push_back(to_json(c, d.scenario, d.contenders.front()));
  Json out{{"schema", schema_of(d.scenario)},
           {"benchmark", d.benchmark},
           {"scenario", name_of(d.scenario)},
           {"division", d.division},
           {"class", d.run_class},
           {"hardware", d.hardware},
           {"date", d.date},
           {"seed", d.seed},
           {"hidden_samples", d.hidden_samples},
           {"quality_metric", d.quality_metric},
           {"quality_floor", d.quality_floor},
           {"machine", d.machine},
           {"sandbox", d.sandbox},
           {"contenders", contenders}};
  if (!d.text.is_null()) out["text"] = d.text;
  out[kChain] = chain_of(out);
  return out;
}

namespace detail {

// Bits are not negative, and quality is minus their mean.
inline void read_minus_bits(const Json& j, ContenderRecord& c) {
  if (!j.contains("minus_bits")) return;
  c.minus_bits = j.at("minus_bits").get<std::vector<double>>();
  const bool good = c.quality && !c.minus_bits.empty() &&
                    std::ranges::all_of(c.minus_bits, [](double x) { return x <= 0 && std::isfinite(x); });
  if (!good || std::abs(tinytorch::statistics::mean(c.minus_bits) - c.quality->estimate) > 1e-9)
    throw std::invalid_argument("run file: " + c.name + ": its quality is not the mean of its minus_bits");
}

// A larger document would take hours to verify.
inline constexpr size_t kMostSamples = 1000000, kMostTrainings = 100;

inline void require_at_most(size_t most, const char* what, size_t found, const std::string& of) {
  if (found > most)
    throw std::invalid_argument(
        fmt::format("run file: {}: expected at most {} {}, found {}", of, most, what, found));
}

// Each pair counts four quarters; both kinds have the same sum, and quality is its share.
inline void read_wins(const Json& j, ContenderRecord& c) {
  if (!j.contains("wins")) return;
  auto& [positives, negatives] = c.wins;
  positives = wholes(j.at("wins").at("positives")), negatives = wholes(j.at("wins").at("negatives"));
  const auto possible = [](const auto& wins, const auto& others) {
    const auto most = static_cast<int64_t>(4 * others.size());
    return std::ranges::all_of(wins, [&](int64_t x) { return x >= 0 && x <= most; });
  };
  const auto sum = [](const auto& wins) { return std::accumulate(wins.begin(), wins.end(), int64_t{0}); };
  require_at_most(kMostSamples, "samples", std::max(positives.size(), negatives.size()), c.name);
  const bool good = c.quality && !positives.empty() && possible(positives, negatives) &&
                    possible(negatives, positives) && sum(positives) == sum(negatives);
  if (!good || std::abs(tinytorch::statistics::auc_of(c.wins) - c.quality->estimate) > 1e-9)
    throw std::invalid_argument("run file: " + c.name + ": its quality does not follow from its wins");
}

inline ContenderRecord read_contender(const Json& j, const RunDocument& d) {
  ContenderRecord c;
  c.name = j.at("name").get<std::string>();
  c.bundle = j.at("bundle").get<std::string>();
  c.tier = j.at("tier").get<std::string>();
  c.out = j.at("out").get<std::string>();
  if (!j.at("quality").is_null()) c.quality = interval_from_json(j.at("quality"));
  c.credit = j.at("credit").get<std::string>();
  read_minus_bits(j, c);
  read_wins(j, c);
  require_at_most(kMostSamples, "samples", std::max(c.credit.size(), c.minus_bits.size()), c.name);
  c.replaced = j.value("replaced", c.replaced);
  c.worker = j.value("worker", c.worker);
  c.compiled = j.value("compiled", false);
  if (j.contains("evidence")) c.evidence = read_evidence(j.at("evidence"), c.name);
  c.multiply_adds = whole(j.at("multiply_adds"));
  c.model_bytes = whole(j.at("model_bytes"));
  c.peak_bytes = whole(j.at("peak_bytes"));
  if (d.scenario == Scenario::time_to_quality) {
    require_at_most(kMostTrainings, "training runs", j.at("training").size(), c.name);
    for (const Json& r : j.at("training"))
      c.training.push_back(read_training_run(r, d.quality_floor, c.name));
    c.quality = quality_of(c.training);
  } else {
    for (const Json& t : j.at("turns")) c.turns.push_back(read_turn(t, c.name));
  }
  for (const Json& a : j.at("audits"))
    c.audits.push_back({a.at("id").get<std::string>(), a.at("name").get<std::string>(),
                        a.at("passed").get<bool>(), a.at("detail").get<std::string>()});
  return c;
}

}  // namespace detail

// Throws std::invalid_argument if the document is not a run.
inline RunDocument read_run_document(const Json& j) {
  try {
    RunDocument d;
    d.benchmark = j.at("benchmark").get<std::string>();
    d.scenario = scenario_named(j.at("scenario").get<std::string>());
    if (j.at("schema") != schema_of(d.scenario))
      throw std::invalid_argument("run file: expected the schema " + std::string(schema_of(d.scenario)) +
                                  ", found " + j.at("schema").dump());
    d.division = j.at("division").get<std::string>();
    d.run_class = j.at("class").get<std::string>();
    d.hardware = j.at("hardware").get<std::string>();
    d.date = j.at("date").get<std::string>();
    d.seed = whole<uint64_t>(j.at("seed"));
    d.hidden_samples = whole(j.at("hidden_samples"));
    d.quality_metric = j.at("quality_metric").get<std::string>();
    d.quality_floor = j.at("quality_floor").get<double>();
    d.text = j.value("text", Json());
    d.machine = j.at("machine");
    d.sandbox = j.at("sandbox");
    for (const Json& c : j.at("contenders")) d.contenders.push_back(detail::read_contender(c, d));
    if (d.contenders.empty())
      throw std::invalid_argument("run file: it has no contender, not even a baseline");
    return d;
  } catch (const Json::exception& e) {
    throw std::invalid_argument(std::string("run file: ") + e.what());
  }
}

}  // namespace tinymlperf::judge
