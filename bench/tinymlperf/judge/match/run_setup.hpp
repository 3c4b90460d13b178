// Preparation of a match: its benchmark and scenario, its contenders, and the machine.
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

// "ttq" alone means the benchmark that the first entry is trained for.
inline std::string trained_by(const std::filesystem::path& entry) {
  if (!std::filesystem::exists(entry / kModelFile))
    throw std::invalid_argument(
        entry.string() + ": expected a " + kModelFile +
        " that says what is learned, found none; choose --benchmark ttq-dig or ttq-lm");
  return std::string(kTrainingPrefix) + benchmark_of(read_limited(entry / kModelFile, limits::kJsonBytes));
}

// True for a model that the judge's own program answers for: a folder without code.
inline bool is_data(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name); };
  return has(kModelFile) && !has(kPluginFile) && !has(device::kPlanFile) && !has(kHeaderFolder);
}

// True for a model, on the library's headers or on its own, that asks for a compiled forward pass.
inline bool is_compiled(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name); };
  return has(kModelFile) && !has(kPluginFile) && !has(device::kPlanFile) &&
         asks_to_compile(read_limited(folder / kModelFile, limits::kJsonBytes));
}

// The options with a benchmark and a scenario that fit each other. Throws std::invalid_argument if there is
// no such pair.
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

// Makes a contender's stage, or says why the contender is out. The judge itself reads only model.json of an
// entry.
inline std::unique_ptr<judge::Stage> admit(judge::ContenderRecord& record,
                                           const std::filesystem::path& folder, const std::string& benchmark,
                                           const sandbox::Offers& offers,
                                           const std::filesystem::path& worker = {}) {
  record.name = folder_name(folder) + (worker.empty() ? "" : "-student");
  try {
    auto stage = std::make_unique<judge::Stage>(folder, offers, is_training(benchmark), worker);
    record.tier = stage->tier(), record.replaced = stage->replaced(), record.worker = worker.string();
    record.compiled = is_compiled(folder);
    if (record.tier != "T0") record.audits.push_back(judge::source_audit(stage->reasons()));
    if (record.tier != "T0" && worker.empty()) return stage;
    const std::string model = read_limited(folder / kModelFile, limits::kJsonBytes);
    const EntrySpec spec = parse_entry(model, task_of(subject_of(benchmark)));
    record.multiply_adds = spec.multiply_adds;
    if (is_training(benchmark)) (void)require_training(spec);
    record.model_bytes = is_training(benchmark)
                             ? spec.parameters * static_cast<int64_t>(sizeof(float))
                             : require_size(folder / weights_file_of(folder), limits::kWeightBytes);
    return stage;
  } catch (const sandbox::Unavailable&) {
    throw;  // this machine has no sandbox
  } catch (const std::exception& e) {
    record.out = e.what();
    return nullptr;
  }
}

// Calls `take`(folder, program) for every entry in order; the entries that a student's program answers for
// come last. The program is empty for the judge's own.
template <class F>
void for_each_entry(const RunOptions& o, F&& take) {
  for (const auto& entry : o.entries) take(entry, std::filesystem::path());
  for (const auto& entry : o.student_entries) take(entry, o.worker);
}

// If a worker is named, each entry of data plays a second time, so that its answers stand beside the judge's
// own.
inline RunOptions with_students(RunOptions o) {
  if (o.worker.empty()) return o;
  for (const auto& entry : o.entries)
    if (is_data(entry)) o.student_entries.push_back(entry);
  if (o.student_entries.empty())
    throw std::invalid_argument("--worker: it answers for entries of data, a folder with " +
                                std::string(kModelFile) + " and no code beside it; found none");
  return o;
}

// The document of a match without its contenders.
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
