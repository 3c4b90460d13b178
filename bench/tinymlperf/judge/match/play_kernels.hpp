// A match between kernels, op by op: plugins on the CPU or plans on the GPU. The baseline `library` is the
// library's own kernels on the same side.
#pragma once

#include <fmt/format.h>

#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/judge/match/device_audits.hpp>
#include <tinymlperf/judge/match/kernel_match.hpp>
#include <tinymlperf/judge/match/run_options.hpp>
#include <tinymlperf/judge/match/stage.hpp>
#include <tinymlperf/support/machine.hpp>
#include <tree/source_folder.hpp>

namespace tinymlperf {

namespace detail {

inline const judge::kernels::KernelClass& kernel_class_named(const std::string& name) {
  using namespace judge::kernels;
  for (const KernelClass* c : {&kSmokeKernels, &kRankedKernels, &kOfficialKernels})
    if (name == c->name) return *c;
  throw std::invalid_argument("--class " + name + ": there are smoke, ranked and official");
}

inline bool is_library(const std::filesystem::path& entry) { return entry == device::kLibraryName; }

// All contenders run on one side, CPU or GPU: a GPU is timed by its own clock.
inline bool is_on_device(const std::vector<std::filesystem::path>& entries) {
  const auto has_plan = [](const auto& e) { return std::filesystem::exists(e / device::kPlanFile); };
  return std::ranges::any_of(entries, has_plan);
}

inline std::unique_ptr<judge::Stage> kernel_stage(const std::filesystem::path& entry, bool on_device,
                                                  const sandbox::Offers& offers) {
  if (is_library(entry) && on_device) return judge::Stage::of_library_on_device(offers);
  const std::filesystem::path library =
      std::filesystem::path(tinytorch_tree::kSourceFolder) / "bench/tinymlperf/kernels/library";
  auto stage = std::make_unique<judge::Stage>(is_library(entry) ? library : entry, offers);
  if (stage->tier() == (on_device ? "T1" : "T2")) return stage;
  throw std::invalid_argument(
      on_device ? "the others are plans for a GPU: expected a folder with plan.json"
                : "a kernel is code: expected a folder with plugin.cpp, plan.json or headers in include/");
}

inline void admit_kernels(judge::kernels::KernelContender& c, const std::filesystem::path& entry,
                          bool on_device, uint64_t seed, const sandbox::Offers& offers,
                          std::vector<std::unique_ptr<judge::Stage>>& stages) {
  c.record.name = folder_name(entry);
  c.record.tier = on_device ? "T1" : "T2";
  c.on_device = on_device;
  try {
    auto stage = kernel_stage(entry, on_device, offers);
    c.record.replaced = stage->replaced();
    if (!is_library(entry)) c.record.audits.push_back(judge::source_audit(stage->reasons()));
    if (on_device && !is_library(entry)) {
      for (judge::AuditResult& a : judge::kernels::device_audits(*stage, seed))
        c.record.audits.push_back(std::move(a));
      judge::kernels::require_passed(c.record.audits);
    }
    c.start = [stage = stage.get()] { return stage->start(); };
    c.session = c.start();
    stages.push_back(std::move(stage));
  } catch (const sandbox::Unavailable&) {
    throw;  // this machine has no sandbox
  } catch (const std::exception& e) {
    c.record.out = e.what();
  }
}

inline std::vector<judge::kernels::KernelTask> chosen(std::vector<judge::kernels::KernelTask> tasks,
                                                      const std::vector<std::string>& names) {
  for (const std::string& name : names) (void)judge::kernels::task_named(name);
  if (!names.empty())
    std::erase_if(tasks,
                  [&](const auto& task) { return std::ranges::find(names, task.name) == names.end(); });
  return tasks;
}

}  // namespace detail

// Tests pass fewer tasks.
inline judge::kernels::KernelRun play_kernels(
    const RunOptions& o, const std::vector<judge::kernels::KernelTask>& tasks = judge::kernels::tasks()) {
  using namespace detail;
  if (!o.worker.empty())
    throw std::invalid_argument(
        "--worker: kernels are compiled by the judge. Headers that replace the library's take part as a "
        "folder of their own: copy them to MINE/include/tinytorch/... and play `run --benchmark krn library "
        "MINE`");
  const judge::kernels::KernelClass& match_class = kernel_class_named(o.run_class);
  if (!(o.scenario.empty() || o.scenario == "single_stream") || o.division != "open")
    throw std::invalid_argument(
        "--benchmark krn: kernels are asked one by one, in a division of their own; leave "
        "--scenario and --division out");
  for (const auto& entry : o.entries)
    if (!is_library(entry)) require_folder(entry);
  const bool on_device = is_on_device(o.entries);
  const sandbox::Offers offers = sandbox_of_machine(o.real_time);
  const uint64_t seed = seed_of(o);
  std::vector<std::unique_ptr<judge::Stage>> stages;
  std::vector<judge::kernels::KernelContender> contenders;
  for (const auto& entry : o.entries) {
    contenders.emplace_back();
    admit_kernels(contenders.back(), entry, on_device, seed, offers, stages);
  }
  const auto asked = chosen(on_device ? judge::kernels::on_device(tasks) : tasks, o.ops);
  judge::RemeasuredPeaks peaks = on_device ? peaks_of_device() : peaks_of_machine();
  // The machine is described before the match: a GPU that fails during it can no longer be asked for its
  // name.
  const Machine machine = describe_machine();
  judge::kernels::KernelRun run{match_class.name,
                                on_device ? hardware_class_of_device() : hardware_class(machine),
                                machine.date,
                                seed,
                                to_json(machine),
                                sandbox::to_json(offers),
                                {}};
  judge::kernels::KernelMatch(asked, match_class, seed, std::move(peaks), o.watcher)(contenders);
  for (auto& c : contenders) run.contenders.push_back(std::move(c.record));
  return run;
}

}  // namespace tinymlperf
