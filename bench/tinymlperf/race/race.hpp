// One race as data: what was measured, under which rules, on which machine. Read and written as race.json.
//
// The file holds the raw samples in seconds, every seed and the results; `race_from_json` reads the
// measurements and rules back, so that scores can be recomputed elsewhere from the file alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tinymlperf/machine.hpp>
#include <tinymlperf/race/score.hpp>
#include <vector>

namespace tinymlperf {

// Independent numbers, so that each can be varied alone.
struct Seeds {
  uint64_t training = 0, validation = 0, hidden = 0, order = 0;
};

struct TrainingCurve {
  std::string name;
  std::vector<double> epoch, loss, validation;  // quality on samples that are not trained on
  double seconds = 0;
};

struct EntryInfo {
  std::string name, author, description;
};

struct RefusedEntry {
  std::string path, reason;
};

struct Race {
  Rules rules;
  Machine machine;
  Seeds seeds;
  int64_t training_samples = 0, validation_samples = 0, hidden_samples = 0;
  double seconds = 0;              // the whole command
  std::vector<EntryInfo> entries;  // in the order of the measurements
  std::vector<Measurement> measurements;
  std::vector<Result> results;
  std::vector<RefusedEntry> refused;
  std::vector<TrainingCurve> training;
  std::vector<std::string> notes;  // what a reader must know about this very race
};

namespace detail {

constexpr const char* kSchema = "tinymlperf-race-1";

inline Json to_json(const EntryInfo& info, const Measurement& m) {
  Json blocks = Json::array();
  for (const Block& b : m.blocks)
    blocks.push_back({{"single_seconds", b.single}, {"batch_seconds", b.batch}});
  return {{"name", m.name},
          {"author", info.author},
          {"description", info.description},
          {"correct", m.correct},
          {"tested", m.tested},
          {"parameters", m.parameters},
          {"multiply_adds", m.multiply_adds},
          {"file_bytes", m.file_bytes},
          {"peak_bytes_single", m.peak_bytes_single},
          {"peak_bytes_batch", m.peak_bytes_batch},
          {"timed_mismatches", m.timed_mismatches},
          {"blocks", blocks}};
}

inline Json to_json(const Result& r, const std::string& name) {
  return {{"name", name},
          {"rank", r.rank ? Json(r.rank) : Json(nullptr)},
          {"on_pareto_front", r.on_front},
          {"accuracy", interval_to_json(r.accuracy)},
          {"p50_seconds", interval_to_json(r.p50)},
          {"p90_seconds", interval_to_json(r.p90)},
          {"throughput_per_second", interval_to_json(r.throughput)},
          {"score", interval_to_json(r.score)},
          {"efficiency", interval_to_json(r.efficiency)},
          {"outliers_labelled", r.outliers}};
}

inline Measurement measurement_from_json(const Json& j) {
  Measurement m;
  m.name = j.at("name").get<std::string>();
  m.correct = j.at("correct").get<int64_t>();
  m.tested = j.at("tested").get<int64_t>();
  m.parameters = j.at("parameters").get<int64_t>();
  m.multiply_adds = j.at("multiply_adds").get<int64_t>();
  m.file_bytes = j.at("file_bytes").get<int64_t>();
  m.peak_bytes_single = j.at("peak_bytes_single").get<int64_t>();
  m.peak_bytes_batch = j.at("peak_bytes_batch").get<int64_t>();
  m.timed_mismatches = j.at("timed_mismatches").get<int64_t>();
  for (const Json& b : j.at("blocks"))
    m.blocks.push_back({b.at("single_seconds").get<std::vector<double>>(),
                        b.at("batch_seconds").get<std::vector<double>>()});
  return m;
}

}  // namespace detail

inline Json to_json(const Race& race) {
  using detail::to_json, tinymlperf::to_json;
  Json entries = Json::array(), results = Json::array(), refused = Json::array(), training = Json::array();
  for (size_t i = 0; i < race.measurements.size(); ++i)
    entries.push_back(to_json(race.entries.at(i), race.measurements[i]));
  for (const Result& r : race.results) results.push_back(to_json(r, race.measurements.at(r.index).name));
  for (const RefusedEntry& r : race.refused) refused.push_back({{"path", r.path}, {"reason", r.reason}});
  for (const TrainingCurve& c : race.training)
    training.push_back({{"name", c.name},
                        {"epoch", c.epoch},
                        {"loss", c.loss},
                        {"validation_accuracy", c.validation},
                        {"seconds", c.seconds}});
  const Rules& r = race.rules;
  return {{"schema", detail::kSchema},
          {"machine", to_json(race.machine)},
          {"seeds",
           {{"training", race.seeds.training},
            {"validation", race.seeds.validation},
            {"hidden", race.seeds.hidden},
            {"order", race.seeds.order},
            {"bootstrap", r.seed}}},
          {"rules",
           {{"baseline", r.baseline},
            {"floor", r.floor},
            {"batch", r.batch},
            {"bootstrap_draws", r.draws},
            {"confidence", r.confidence}}},
          {"samples",
           {{"training", race.training_samples},
            {"validation", race.validation_samples},
            {"hidden", race.hidden_samples}}},
          {"seconds", race.seconds},
          {"notes", race.notes},
          {"entries", entries},
          {"results", results},
          {"refused", refused},
          {"training", training}};
}

// The part from which the results follow: rules, seeds and measurements. Throws std::invalid_argument
// otherwise.
inline Race race_from_json(const Json& document) {
  try {
    if (document.at("schema") != detail::kSchema)
      throw std::invalid_argument(std::string("race file: expected the schema ") + detail::kSchema);
    Race race;
    const Json& rules = document.at("rules");
    race.rules.baseline = rules.at("baseline").get<std::string>();
    race.rules.floor = rules.at("floor").get<double>();
    race.rules.batch = rules.at("batch").get<int64_t>();
    race.rules.draws = rules.at("bootstrap_draws").get<int64_t>();
    race.rules.confidence = rules.at("confidence").get<double>();
    race.rules.seed = document.at("seeds").at("bootstrap").get<uint64_t>();
    for (const Json& entry : document.at("entries")) {
      race.measurements.push_back(detail::measurement_from_json(entry));
      race.entries.push_back({race.measurements.back().name, entry.at("author").get<std::string>(),
                              entry.at("description").get<std::string>()});
    }
    return race;
  } catch (const Json::exception& e) {
    throw std::invalid_argument(std::string("race file: ") + e.what());
  }
}

// Recomputes every result from the raw samples; returns the first difference to what the file claims, or "".
inline std::string verify_race(const Json& document) {
  Race race = race_from_json(document);
  race.results = score_race(race.measurements, race.rules);
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
