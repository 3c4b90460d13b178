// What a match is made of before it is played: which benchmark and scenario are meant, who takes part, on
// which machine.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <tinymlperf/benchmarks/benchmarks.hpp>
#include <tinymlperf/entries/header_set.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/judge/match/audits.hpp>
#include <tinymlperf/judge/match/run_options.hpp>
#include <tinymlperf/judge/match/stage.hpp>
#include <tinymlperf/judge/results/run_document.hpp>
#include <tinymlperf/support/machine.hpp>
#include <vector>

namespace tinymlperf {

namespace detail {

// "ttq" alone means what the first entry says that it learns.
inline std::string trained_by(const std::filesystem::path& entry) {
  if (!std::filesystem::exists(entry / kModelFile))
    throw std::invalid_argument(
        entry.string() + ": expected a " + kModelFile +
        " that says what is learned, found none; choose --benchmark ttq-dig or ttq-lm");
  return std::string(kTrainingPrefix) + benchmark_of(read_limited(entry / kModelFile, limits::kJsonBytes));
}

// A model that the judge's own program answers for: no code beside it.
inline bool is_data(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name); };
  return has(kModelFile) && !has(kPluginFile) && !has(device::kPlanFile) && !has(kHeaderFolder);
}

// The same options with a benchmark and a scenario that fit. Throws std::invalid_argument where none is
// meant.
inline RunOptions resolved(RunOptions o) {
  constexpr const char* kTraining = "time_to_quality";
  require_folders(o);
  if (o.division != "open" && o.division != "closed")
    throw std::invalid_argument("--division " + o.division + ": there are open and closed");
  if (o.benchmark == "ttq") o.benchmark = trained_by(o.entries.at(0));
  if (o.scenario == kTraining && !is_training(o.benchmark))
    o.benchmark = std::string(kTrainingPrefix) + o.benchmark;
  if (o.scenario.empty()) o.scenario = is_training(o.benchmark) ? kTraining : "single_stream";
  if (is_training(o.benchmark) && o.scenario != kTraining)
    throw std::invalid_argument("--scenario " + o.scenario + ": " + o.benchmark + " has only " + kTraining);
  return o;
}

// Sets a contender's stage, or says why it is out. Of a stranger's files the judge itself reads model.json
// alone.
inline std::unique_ptr<judge::Stage> admit(judge::ContenderRecord& record,
                                           const std::filesystem::path& folder, const std::string& benchmark,
                                           const sandbox::Offers& offers,
                                           const std::filesystem::path& worker = {}) {
  record.name = folder_name(folder) + (worker.empty() ? "" : "-student");
  try {
    auto stage = std::make_unique<judge::Stage>(folder, offers, is_training(benchmark), worker);
    record.tier = stage->tier(), record.replaced = stage->replaced(), record.worker = worker.string();
    if (record.tier != "T0") record.audits.push_back(judge::source_audit(stage->reasons()));
    if (record.tier != "T0" && worker.empty()) return stage;
    const std::string model = read_limited(folder / kModelFile, limits::kJsonBytes);
    const EntrySpec spec = parse_entry(model, task_of(subject_of(benchmark)));
    record.multiply_adds = spec.multiply_adds;
    if (is_training(benchmark)) (void)require_training(spec);
    record.model_bytes = is_training(benchmark) ? spec.parameters * static_cast<int64_t>(sizeof(float))
                                                : require_size(folder / kWeightsFile, limits::kWeightBytes);
    return stage;
  } catch (const sandbox::Unavailable&) {
    throw;  // this machine cannot hold anybody
  } catch (const std::exception& e) {
    record.out = e.what();
    return nullptr;
  }
}

// Every entry in its order, those that a student's program answers for behind the others. `take` is handed a
// folder and the program, which is empty for the judge's own.
template <class F>
void for_each_entry(const RunOptions& o, F&& take) {
  for (const auto& entry : o.entries) take(entry, std::filesystem::path());
  for (const auto& entry : o.student_entries) take(entry, o.worker);
}

// Whoever names a worker sees its answers beside the judge's own: each entry of data plays a second time.
inline RunOptions with_students(RunOptions o) {
  if (o.worker.empty()) return o;
  for (const auto& entry : o.entries)
    if (is_data(entry)) o.student_entries.push_back(entry);
  if (o.student_entries.empty())
    throw std::invalid_argument("--worker: it answers for entries of data, a folder with " +
                                std::string(kModelFile) + " and no code beside it; found none");
  return o;
}

// The document of a match that was played, but for its contenders.
inline judge::RunDocument document_of(const RunOptions& o, const judge::Benchmark& benchmark,
                                      const sandbox::Offers& offers, uint64_t seed) {
  const Machine machine = describe_machine();
  return {.benchmark = benchmark.id(),
          .scenario = judge::scenario_named(o.scenario),
          .division = o.division,
          .run_class = o.run_class,
          .hardware = hardware_class(machine),
          .date = machine.date,
          .seed = seed,
          .hidden_samples = benchmark.size(),
          .quality_metric = benchmark.metric(),
          .quality_floor = benchmark.floor(),
          .machine = to_json(machine),
          .sandbox = sandbox::to_json(offers),
          .contenders = {}};
}

}  // namespace detail

}  // namespace tinymlperf
