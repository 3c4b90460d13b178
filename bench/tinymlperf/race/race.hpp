// The data of one race: the training curves, the two matches, and the ranking. Written to and read from
// race.json.
//
// The file holds both matches in the format of run.json, with every sample and every seed, so verify_race()
// recomputes the results from the file alone. If a race could not be completed, the file holds the matches
// that were played, "missing" lists each part without a result and its reason, and no entry is ranked.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <tinymlperf/judge/results/verify_run.hpp>
#include <tinymlperf/race/score.hpp>
#include <tinymlperf/support/machine.hpp>
#include <tinymlperf/training/curve.hpp>
#include <vector>

namespace tinymlperf {

struct EntryInfo {
  std::string name, author, description;
  int64_t parameters = 0;  // 0: not known
};

struct RefusedEntry {
  std::string path, reason;
};

// A part of the race without a result: a match, named by its scenario, or the ranking.
struct Missing {
  std::string what, reason;
};

struct Race {
  Machine machine;
  std::string baseline = "lenet";
  double floor = 0.80;             // accuracy that the lower bound must reach
  std::vector<EntryInfo> entries;  // in the order of the contenders
  Matches matches;
  std::vector<Missing> missing;  // empty: the race is complete
  std::vector<Result> results;
  std::vector<RefusedEntry> refused;  // before the race, or put out in a match
  std::vector<TrainingCurve> training;
  uint64_t training_seed = 0, validation_seed = 0;
  int64_t training_samples = 0, validation_samples = 0;
  double seconds = 0;              // duration of the whole command
  std::vector<std::string> notes;  // remarks on this race for the reader of its report
};

namespace detail {

constexpr const char* kRaceSchema = "tinymlperf-race-2";

inline Json to_json(const Result& r, const std::string& name) {
  return {{"name", name},
          {"rank", r.rank ? Json(r.rank) : Json(nullptr)},
          {"on_pareto_front", r.on_front},
          {"accuracy", interval_to_json(r.accuracy)},
          {"p90_seconds", r.p90},
          {"throughput_per_second", r.throughput},
          {"score", interval_to_json(r.score)},
          {"efficiency", r.efficiency ? Json(*r.efficiency) : Json(nullptr)}};
}

// Reads the matches of an incomplete race, which are told apart by their scenario.
inline Matches read_unfinished(const Json& matches) {
  Matches out;
  for (const Json& match : matches) {
    judge::RunDocument d = judge::read_run_document(match);
    (d.scenario == judge::Scenario::offline ? out.offline : out.single_stream) = std::move(d);
  }
  return out;
}

inline void require_same(const Race& race) {
  const auto same = [](const EntryInfo& e, const judge::ContenderRecord& c) { return e.name == c.name; };
  for (const judge::RunDocument* match : played(race.matches))
    if (!std::ranges::equal(race.entries, match->contenders, same))
      throw std::invalid_argument("race file: expected one contender for each entry, in the same order");
}

}  // namespace detail

inline Json to_json(const Race& race) {
  Json entries = Json::array(), results = Json::array(), refused = Json::array(), training = Json::array(),
       matches = Json::array(), missing = Json::array();
  for (const EntryInfo& e : race.entries)
    entries.push_back({{"name", e.name},
                       {"author", e.author},
                       {"description", e.description},
                       {"parameters", e.parameters}});
  for (const Result& r : race.results) results.push_back(detail::to_json(r, race.entries.at(r.index).name));
  for (const judge::RunDocument* match : played(race.matches)) matches.push_back(judge::to_json(*match));
  for (const Missing& m : race.missing) missing.push_back({{"what", m.what}, {"reason", m.reason}});
  for (const RefusedEntry& r : race.refused) refused.push_back({{"path", r.path}, {"reason", r.reason}});
  for (const TrainingCurve& c : race.training)
    training.push_back({{"name", c.name},
                        {"epoch", c.epoch},
                        {"loss", c.loss},
                        {"validation_accuracy", c.validation},
                        {"seconds", c.seconds}});
  return {{"schema", detail::kRaceSchema},
          {"machine", to_json(race.machine)},
          {"seeds", {{"training", race.training_seed}, {"validation", race.validation_seed}}},
          {"rules", {{"baseline", race.baseline}, {"floor", race.floor}}},
          {"samples", {{"training", race.training_samples}, {"validation", race.validation_samples}}},
          {"seconds", race.seconds},
          {"notes", race.notes},
          {"entries", entries},
          {"matches", matches},
          {"missing", missing},
          {"results", results},
          {"refused", refused},
          {"training", training}};
}

// Reads the parts from which the results follow: rules, entries and matches. Throws std::invalid_argument if
// the document is not a valid race file.
inline Race race_from_json(const Json& document) {
  try {
    if (document.at("schema") != detail::kRaceSchema)
      throw std::invalid_argument(std::string("race file: expected the schema ") + detail::kRaceSchema +
                                  ", found " + document.at("schema").dump());
    Race race;
    race.baseline = document.at("rules").at("baseline").get<std::string>();
    race.floor = document.at("rules").at("floor").get<double>();
    for (const Json& e : document.at("entries"))
      race.entries.push_back({e.at("name").get<std::string>(), e.at("author").get<std::string>(),
                              e.at("description").get<std::string>(), e.at("parameters").get<int64_t>()});
    for (const Json& m : document.value("missing", Json::array()))
      race.missing.push_back({m.at("what").get<std::string>(), m.at("reason").get<std::string>()});
    const Json& matches = document.at("matches");
    if (race.missing.empty())
      race.matches = {judge::read_run_document(matches.at(0)), judge::read_run_document(matches.at(1))};
    else
      race.matches = detail::read_unfinished(matches);
    detail::require_same(race);
    return race;
  } catch (const Json::exception& e) {
    throw std::invalid_argument(std::string("race file: ") + e.what());
  }
}

// Recomputes the numbers of both matches and all results from the raw samples. Returns a text about the first
// difference to the numbers in the file, or "" if there is none.
inline std::string verify_race(const Json& document) {
  Race race = race_from_json(document);
  for (const Json& match : document.at("matches"))
    if (const std::string difference = verify_run(match); !difference.empty()) return difference;
  if (race.missing.empty()) race.results = score_race(race.matches, race.floor);
  const Json recomputed = to_json(race).at("results");
  const Json claimed = document.value("results", Json());
  if (!claimed.is_array() || claimed.size() != recomputed.size())
    return "the file does not hold one result per entry";
  for (size_t i = 0; i < recomputed.size(); ++i)
    if (!detail::agree(recomputed[i], claimed[i]))
      return "result " + std::to_string(i + 1) + " is claimed as " + claimed[i].dump() +
             ", but the samples give " + recomputed[i].dump();
  return "";
}

}  // namespace tinymlperf
