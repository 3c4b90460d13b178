// What a submission must hold beyond a sound bundle, so that the judge can run it: the rules of its tier.
// Read by `tinymlperf check`, and by the leaderboard when it takes a bundle in; one answer for both.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tinymlperf/benchmarks/benchmarks.hpp>
#include <tinymlperf/bundle/bundle.hpp>
#include <tinymlperf/device/plan.hpp>
#include <tinymlperf/entries/header_set.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/entries/static_rules.hpp>
#include <tinymlperf/entries/text_model.hpp>
#include <tinymlperf/judge/results/run_document.hpp>
#include <tinymlperf/ops/tasks.hpp>
#include <tinytorch/benchmarking/submission.hpp>

namespace tinymlperf::bundle {

constexpr int64_t kTextBytes = int64_t{1} << 18;  // of a file that pages show

// What pages show as text: of a known kind, not too long, UTF-8 without control characters.
inline bool is_text_path(const std::string& path) {
  for (const char* end : {".json", ".md", ".txt", ".cpp", ".hpp", ".h", ".cu", ".cuh"})
    if (path.ends_with(end)) return true;
  return false;
}
inline bool is_shown(const ArchiveFile& file) {
  if (!is_text_path(file.path) || static_cast<int64_t>(file.content.size()) > kTextBytes) return false;
  for (const char c : file.content)
    if ((c >= 0 && c < 32 && c != '\n' && c != '\t' && c != '\r') || c == 127) return false;
  try {
    (void)Json(file.content).dump();  // complains about what is not UTF-8
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

// The library's headers that it replaces. Throws Refusal.
inline HeaderSet header_set_of(const Bundle& bundle) {
  return tinymlperf::header_set_of(
      bundle.files, [](const ArchiveFile& file) { return static_cast<int64_t>(file.content.size()); });
}

namespace detail {

// Kernels are a division of their own, asked one by one; they are code.
inline void check_kernels(const Manifest& m) {
  if (m.benchmarks != std::vector<std::string>{kKernelBenchmark})
    throw Refusal(kManifestFile, "benchmark",
                  std::string(kKernelBenchmark) + " alone, and it alone in the division " + kKernelDivision,
                  show(Json(m.benchmarks)) + " in the division " + m.division);
  if (m.division != kKernelDivision)
    throw Refusal(kManifestFile, "division", std::string(kKernelDivision) + " for " + kKernelBenchmark,
                  m.division);
  const char* one_by_one = judge::name_of(judge::Scenario::single_stream);
  if (m.scenarios != std::vector<std::string>{one_by_one})
    throw Refusal(kManifestFile, "scenario", std::string(one_by_one) + " for " + kKernelBenchmark,
                  show(Json(m.scenarios)));
  if (m.tier == "T0") throw Refusal(kManifestFile, "tier", "one with code, since a kernel is code", m.tier);
}

inline void check_names(const Manifest& m) {
  if (m.division == kKernelDivision || std::ranges::count(m.benchmarks, kKernelBenchmark) > 0)
    return check_kernels(m);
  for (const std::string& b : m.benchmarks) {
    try {
      judge::make_benchmark(b);
    } catch (const std::invalid_argument&) {
      throw Refusal(kManifestFile, "benchmark", "of " + judge::benchmark_ids() + ", " + kKernelBenchmark,
                    show(Json(b)));
    }
  }
  for (const std::string& s : m.scenarios) {
    try {
      judge::scenario_named(s);
    } catch (const std::invalid_argument& e) {
      throw Refusal(kManifestFile, "scenario", "a scenario that a match can have", e.what());
    }
    for (const std::string& b : m.benchmarks)
      if (is_training(b) != (s == judge::name_of(judge::Scenario::time_to_quality)))
        throw Refusal(kManifestFile, "scenario",
                      "time_to_quality for what is trained (ttq-...), and for nothing else", b + " in " + s);
  }
}

inline void require_shown(const ArchiveFile& file) {
  if (!is_shown(file))
    throw Refusal("bundle", file.path,
                  "text (.json, .md, .txt, .cpp, .hpp, .h, .cu, .cuh; UTF-8; at most " +
                      std::to_string(kTextBytes) + " bytes)",
                  "something else");
}
inline void require_file(const Bundle& bundle, const char* path) {
  if (!bundle.find(path)) throw Refusal("bundle", "", std::string("a file ") + path, "none");
}

// A model of text is loaded as one.
inline void require_loads(const std::filesystem::path& entry, const std::string& benchmark) {
  if (task_of(benchmark).text)
    (void)load_text_model(entry);
  else
    (void)load_entry(entry, task_of(benchmark));
}

// A model and its weights, or how it is to be trained, and texts about them.
inline void check_model(const Bundle& bundle) {
  const std::vector<std::string>& benchmarks = bundle.manifest.benchmarks;
  const bool trained = std::ranges::all_of(benchmarks, [](const auto& b) { return is_training(b); });
  require_file(bundle, kModelFile);
  if (!trained) require_file(bundle, kWeightsFile);
  for (const ArchiveFile& file : bundle.files)
    if (trained || file.path != kWeightsFile) require_shown(file);
  const TemporaryFolder folder;
  unpack(bundle, folder.path() / "entry");
  const auto require_name = [&](const EntrySpec& spec) {
    if (spec.name != bundle.manifest.name)
      throw Refusal(kModelFile, "name", "the manifest's name " + bundle.manifest.name, spec.name);
  };
  try {
    for (const std::string& b : benchmarks) {
      const EntrySpec spec = parse_entry(*bundle.find(kModelFile), task_of(subject_of(b)));
      require_name(spec);
      if (is_training(b)) (void)require_training(spec);
    }
    if (!trained) require_loads(folder.path() / "entry", benchmarks.front());
  } catch (const tinytorch::Error& e) {
    throw Refusal(kWeightsFile, "", "weights that can be read", e.what());
  }
}

// T0 is data alone; nobody runs the texts.
inline void check_data(const Bundle& bundle) {
  const char* of_code = "nothing that runs: source of this name is of tier T2";
  if (bundle.find(kPluginFile)) throw Refusal("bundle", kPluginFile, of_code, "a file");
  for (const ArchiveFile& file : bundle.files)
    if (HeaderSet::holds(file.path)) throw Refusal("bundle", file.path, of_code, "a file");
  check_model(bundle);
}

// Source that lies beside `main`, all of which pages show; `headers` have rules of their own.
inline void check_sources(const Bundle& bundle, const char* main, const HeaderSet& headers = {}) {
  constexpr size_t kMostSources = 32;
  constexpr int64_t kSourceBytes = int64_t{1} << 20;
  require_file(bundle, main);
  size_t sources = 0;
  int64_t bytes = 0;
  for (const ArchiveFile& file : bundle.files) {
    require_shown(file);
    if (!is_source_path(file.path) || (!headers.empty() && HeaderSet::holds(file.path))) continue;
    if (file.path.find('/') != std::string::npos)
      throw Refusal("bundle", file.path, std::string("source beside ") + main, "a folder");
    bytes += static_cast<int64_t>(file.content.size());
    ++sources;
  }
  if (sources > kMostSources || bytes > kSourceBytes)
    throw Refusal("bundle", "",
                  fmt::format("at most {} files of source and {} bytes of it", kMostSources, kSourceBytes),
                  fmt::format("{} of {} bytes", sources, bytes));
}

// Headers alone replace the library's in a program of the judge's own: the one that answers for a model, or
// its kernels.
inline void check_headers_alone(const Bundle& bundle) {
  const bool kernels = bundle.manifest.division == kKernelDivision;
  if (kernels && bundle.find(kModelFile))
    throw Refusal("bundle", kModelFile,
                  "headers alone, on which the library's kernels are compiled: leave the model out",
                  "a file");
  if (!kernels && !bundle.find(kModelFile))
    throw Refusal("bundle", "",
                  std::string("beside include/ a ") + kPluginFile + ", or a " + kModelFile + " with its " +
                      kWeightsFile + " that is answered for on these headers, or the benchmark " +
                      kKernelBenchmark + " alone (pack --benchmark " + kKernelBenchmark + ")",
                  "headers alone");
  if (!kernels) return check_model(bundle);
  for (const ArchiveFile& file : bundle.files) require_shown(file);
}

// T2: plugin.cpp and what it includes, or headers that replace the library's, or both.
inline void check_plugin(const Bundle& bundle) {
  if (bundle.manifest.division == "closed")
    throw Refusal(kManifestFile, "division", "open, since nobody can see which model a plugin computes",
                  bundle.manifest.division);
  const HeaderSet headers = header_set_of(bundle);
  if (!headers.empty() && !bundle.find(kPluginFile)) return check_headers_alone(bundle);
  check_sources(bundle, kPluginFile, headers);
}

// T1: plan.json and the device code that it launches; nothing that runs on the host.
inline void check_device_code(const Bundle& bundle) {
  if (bundle.manifest.division != kKernelDivision)
    throw Refusal(kManifestFile, "division", std::string(kKernelDivision) + ", since a plan launches kernels",
                  bundle.manifest.division);
  if (!bundle.manifest.hardware.starts_with("gpu("))
    throw Refusal(kManifestFile, "hardware", "gpu(NAME), since a plan is for a GPU (pack --hardware)",
                  bundle.manifest.hardware);
  check_sources(bundle, device::kPlanFile);
  for (const ArchiveFile& file : bundle.files)
    if (file.path.ends_with(".cpp"))
      throw Refusal("bundle", file.path, "nothing that runs on the host: such source is of tier T2",
                    "a file");
  for (const auto& [name, op] : device::parse_plan(*bundle.find(device::kPlanFile))) {
    try {
      (void)judge::kernels::task_named(name);
    } catch (const std::invalid_argument& e) {
      throw Refusal(device::kPlanFile, "ops." + name, "an op that `tinymlperf kernels` lists", e.what());
    }
    require_file(bundle, op.source.c_str());
  }
}

// Numbers that come along follow from the samples that come along.
inline void check_result(const Bundle& bundle) {
  const std::string* const text = bundle.find(tinytorch::benchmarking::kResultFile);
  if (!text) return;
  try {
    (void)tinytorch::benchmarking::read_result(*text);
  } catch (const tinytorch::Error& e) {
    throw Refusal(tinytorch::benchmarking::kResultFile, "",
                  "a result, whose numbers follow from its samples (benchmarking/submission.hpp)", e.what());
  }
}

}  // namespace detail

// Throws Refusal when the judge cannot run it.
inline void check_rules(const Bundle& bundle) {
  detail::check_names(bundle.manifest);
  detail::check_result(bundle);
  const std::string& tier = bundle.manifest.tier;
  if (tier == "T0") {
    detail::check_data(bundle);
  } else if (tier == "T1") {
    detail::check_device_code(bundle);
  } else {
    detail::check_plugin(bundle);
  }
}

// What somebody should look at in its source; empty for data.
inline std::vector<std::string> reasons_to_look(const Bundle& bundle) {
  std::vector<std::string> out;
  if (bundle.manifest.tier == "T0") return out;
  for (const ArchiveFile& file : bundle.files)
    for (std::string& reason : static_reasons(file.path, file.content)) out.push_back(std::move(reason));
  return out;
}

}  // namespace tinymlperf::bundle
