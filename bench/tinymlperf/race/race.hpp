// One race as data: what was trained, the two matches that were played, and the ranking. Read and written as race.json.
//
// The file holds both matches whole, as run.json does, every sample and every seed with them; `verify_race` forms the
// results again from the file alone.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <tinymlperf/judge/verify_run.hpp>
#include <tinymlperf/machine.hpp>
#include <tinymlperf/race/score.hpp>
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

struct Race {
  Machine machine;
  std::string baseline = "lenet";
  double floor = 0.80;             // accuracy that the lower bound must reach
  std::vector<EntryInfo> entries;  // in the order of the contenders
  Matches matches;
  std::vector<Result> results;
  std::vector<RefusedEntry> refused;  // and those who were out of a match
  std::vector<TrainingCurve> training;
  uint64_t training_seed = 0, validation_seed = 0;
  int64_t training_samples = 0, validation_samples = 0;
  double seconds = 0;              // the whole command
  std::vector<std::string> notes;  // what a reader must know about this very race
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

}  // namespace detail

inline Json to_json(const Race& race) {
  Json entries = Json::array(), results = Json::array(), refused = Json::array(), training = Json::array();
  for (const EntryInfo& e : race.entries)
    entries.push_back({{"name", e.name},
                       {"author", e.author},
                       {"description", e.description},
                       {"parameters", e.parameters}});
  for (const Result& r : race.results) results.push_back(detail::to_json(r, race.entries.at(r.index).name));
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
          {"matches", {judge::to_json(race.matches.single_stream), judge::to_json(race.matches.offline)}},
          {"results", results},
          {"refused", refused},
          {"training", training}};
}

// The part from which the results follow: rules, entries and matches. Throws std::invalid_argument otherwise.
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
    race.matches = {judge::read_run_document(document.at("matches").at(0)),
                    judge::read_run_document(document.at("matches").at(1))};
    const auto& contenders = race.matches.offline.contenders;
    const auto same = [](const EntryInfo& e, const judge::ContenderRecord& c) { return e.name == c.name; };
    if (!std::equal(race.entries.begin(), race.entries.end(), contenders.begin(), contenders.end(), same))
      throw std::invalid_argument("race file: expected a contender for every entry, in their order");
    return race;
  } catch (const Json::exception& e) {
    throw std::invalid_argument(std::string("race file: ") + e.what());
  }
}

// Forms both matches' numbers and every result again from the raw samples; returns the first difference to what the file
// claims, or "".
inline std::string verify_race(const Json& document) {
  Race race = race_from_json(document);
  for (const Json& match : document.at("matches"))
    if (const std::string difference = verify_run(match); !difference.empty()) return difference;
  race.results = score_race(race.matches, race.floor);
  const Json recomputed = to_json(race).at("results");
  const Json claimed = document.value("results", Json());
  if (!claimed.is_array() || claimed.size() != recomputed.size())
    return "the file does not hold one result per entry";
  for (size_t i = 0; i < recomputed.size(); ++i)
    if (!detail::agree(recomputed[i], claimed[i]))
      return "result " + std::to_string(i + 1) + " is claimed as " + claimed[i].dump() +
             " but the samples give " + recomputed[i].dump();
  return "";
}

}  // namespace tinymlperf
