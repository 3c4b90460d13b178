// The rules of each tier: the files and fields that a valid bundle needs, so that the judge can run it.
// `tinymlperf check` and the leaderboard use the same rules, so both give the same answer.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tinymlperf/benchmarks/benchmarks.hpp>
#include <tinymlperf/bundle/bundle.hpp>
#include <tinymlperf/device/plan.hpp>
#include <tinymlperf/entries/header_set.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/entries/quantizer_spec.hpp>
#include <tinymlperf/entries/static_rules.hpp>
#include <tinymlperf/entries/text_model.hpp>
#include <tinymlperf/judge/results/run_document.hpp>
#include <tinymlperf/judge/scenarios/scenario_rules.hpp>
#include <tinymlperf/ops/tasks.hpp>
#include <tinytorch/benchmarking/submission.hpp>

namespace tinymlperf::bundle {

constexpr int64_t kTextBytes = int64_t{1} << 18;  // the largest file that the leaderboard's pages show

inline bool is_text_path(const std::string& path) {
  for (const char* end : {".json", ".md", ".txt", ".cpp", ".hpp", ".h", ".cu", ".cuh"})
    if (path.ends_with(end)) return true;
  return false;
}
// True for files that pages show: UTF-8 text without control characters, with a known file ending and a
// limited size.
inline bool is_shown(const ArchiveFile& file) {
  if (!is_text_path(file.path) || static_cast<int64_t>(file.content.size()) > kTextBytes) return false;
  for (const char c : file.content)
    if ((c >= 0 && c < 32 && c != '\n' && c != '\t' && c != '\r') || c == 127) return false;
  try {
    (void)Json(file.content).dump();  // throws if the content is not UTF-8
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

// Returns the library's headers that the submission replaces. Throws Refusal.
inline HeaderSet header_set_of(const Bundle& bundle) {
  return tinymlperf::header_set_of(
      bundle.files, [](const ArchiveFile& file) { return static_cast<int64_t>(file.content.size()); });
}

namespace detail {

// Kernels have a benchmark (krn) and a division of their own, one scenario, and a tier with code.
inline void check_kernels(const Manifest& m) {
  if (m.benchmarks != std::vector<std::string>{kKernelBenchmark})
    throw Refusal(kManifestFile, "benchmark",
                  std::string(kKernelBenchmark) + " alone, since it is the only benchmark of the division " +
                      kKernelDivision,
                  show(Json(m.benchmarks)) + " in the division " + m.division);
  if (m.division != kKernelDivision)
    throw Refusal(kManifestFile, "division", std::string(kKernelDivision) + " for " + kKernelBenchmark,
                  m.division);
  const char* single_stream = judge::name_of(judge::Scenario::single_stream);
  if (m.scenarios != std::vector<std::string>{single_stream})
    throw Refusal(kManifestFile, "scenario", std::string(single_stream) + " for " + kKernelBenchmark,
                  show(Json(m.scenarios)));
  if (m.tier == "T0") throw Refusal(kManifestFile, "tier", "T1 or T2, since a kernel is code", m.tier);
}

// At least one benchmark of the manifest must have the scenario.
inline void check_scenario(const Manifest& m, const std::string& scenario) {
  std::string wrong;
  for (const std::string& b : m.benchmarks) {
    wrong = scenario_complaint(judge::scenario_named(scenario), *judge::make_benchmark(b), m.division);
    if (wrong.empty()) return;
  }
  throw Refusal(kManifestFile, "scenario", "another than " + scenario + ": " + wrong, scenario);
}

inline void check_names(const Manifest& m) {
  if (m.division == kKernelDivision || std::ranges::count(m.benchmarks, kKernelBenchmark) > 0)
    return check_kernels(m);
  for (const std::string& b : m.benchmarks) {
    try {
      judge::make_benchmark(b);
    } catch (const std::invalid_argument&) {
      throw Refusal(kManifestFile, "benchmark", "one of " + judge::benchmark_ids() + ", " + kKernelBenchmark,
                    show(Json(b)));
    }
  }
  for (const std::string& s : m.scenarios) {
    try {
      judge::scenario_named(s);
    } catch (const std::invalid_argument& e) {
      throw Refusal(kManifestFile, "scenario", "a known scenario", e.what());
    }
    for (const std::string& b : m.benchmarks)
      if (is_training(b) != (s == judge::name_of(judge::Scenario::time_to_quality)))
        throw Refusal(kManifestFile, "scenario",
                      "time_to_quality for training benchmarks (ttq-...), and only for them", b + " in " + s);
    check_scenario(m, s);
  }
}

inline void require_shown(const ArchiveFile& file) {
  if (!is_shown(file))
    throw Refusal("bundle", file.path,
                  "text (.json, .md, .txt, .cpp, .hpp, .h, .cu, .cuh; UTF-8; at most " +
                      std::to_string(kTextBytes) + " bytes)",
                  "another kind of file");
}
inline void require_file(const Bundle& bundle, const char* path) {
  if (!bundle.find(path)) throw Refusal("bundle", "", std::string("a file ") + path, "none");
}

// Loads the entry as a text model or as layers, as its benchmark needs. Throws if it cannot be loaded.
inline void require_loads(const std::filesystem::path& entry, const std::string& benchmark) {
  if (task_of(benchmark).text)
    (void)load_text_model(entry);
  else
    (void)load_entry(entry, task_of(benchmark));
}

// Float weights, or packed ones, whose quantizer and declared numbers agree with the manifest. In the closed
// division a quantizer is required, since the judge packs again by it (judge/match/replay.hpp).
inline void check_weights_files(const Bundle& bundle) {
  const Manifest& m = bundle.manifest;
  const std::string *packed = bundle.find(kPackedFile), *quantizer = bundle.find(kQuantizerFile);
  if (!packed && quantizer)
    throw Refusal("bundle", kQuantizerFile, std::string("a file ") + kPackedFile + " beside it", "none");
  if (!packed) return require_file(bundle, kWeightsFile);
  if (bundle.find(kWeightsFile))
    throw Refusal("bundle", kWeightsFile, std::string("either float weights or ") + kPackedFile, "both");
  if (m.division == "closed" && !quantizer)
    throw Refusal("bundle", kQuantizerFile, "the quantizer by which the baseline's weights were packed",
                  "none");
  if (!quantizer) return;
  require_short_description(static_cast<int64_t>(quantizer->size()), static_cast<int64_t>(packed->size()));
  const QuantizerSpec q = parse_quantizer(*quantizer, training_size(m.benchmarks.front()).training);
  const auto agree = [](const char* key, const std::string& expected, const std::string& found) {
    if (expected != found)
      throw Refusal(kManifestFile, key, expected + ", as " + kQuantizerFile + " says", found);
  };
  agree("quantizer.method", q.method, m.quantizer);
  agree("dtype.weights", declared_weights(q), m.weights);
  agree("dtype.activations", q.activations == "int8" ? "i8" : "f32", m.activations);
  agree("quantizer.calib_ids", Json(q.calibration).dump(), Json(m.calibration).dump());
}

// Checks an entry of data: model.json with either weights or, for training benchmarks, a training recipe. All
// other files are text.
inline void check_model(const Bundle& bundle) {
  const std::vector<std::string>& benchmarks = bundle.manifest.benchmarks;
  const bool trained = std::ranges::all_of(benchmarks, [](const auto& b) { return is_training(b); });
  require_file(bundle, kModelFile);
  if (!trained) check_weights_files(bundle);
  for (const ArchiveFile& file : bundle.files)
    if (trained || (file.path != kWeightsFile && file.path != kPackedFile)) require_shown(file);
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
    throw Refusal(bundle.find(kPackedFile) ? kPackedFile : kWeightsFile, "", "weights that can be read",
                  e.what());
  }
}

// T0: data without code. Text files may hold source (such as a training script), which the judge never runs.
inline void check_data(const Bundle& bundle) {
  const char* no_code = "no code in tier T0: a file of this name needs tier T2";
  if (bundle.find(kPluginFile)) throw Refusal("bundle", kPluginFile, no_code, "a file");
  for (const ArchiveFile& file : bundle.files)
    if (HeaderSet::holds(file.path)) throw Refusal("bundle", file.path, no_code, "a file");
  check_model(bundle);
}

// Checks `main` and the source files beside it. All files must be text that pages can show. The replaced
// headers in `headers` have other rules (header_set.hpp).
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
      throw Refusal("bundle", file.path, std::string("source beside ") + main, "a file in a subfolder");
    bytes += static_cast<int64_t>(file.content.size());
    ++sources;
  }
  if (sources > kMostSources || bytes > kSourceBytes)
    throw Refusal("bundle", "",
                  fmt::format("at most {} source files with {} bytes in total", kMostSources, kSourceBytes),
                  fmt::format("{} files with {} bytes", sources, bytes));
}

// Headers without a plugin replace the library's headers in a program of the judge: the program that runs the
// model of the submission, or the library's kernels.
inline void check_headers_alone(const Bundle& bundle) {
  const bool kernels = bundle.manifest.division == kKernelDivision;
  if (kernels && bundle.find(kModelFile))
    throw Refusal("bundle", kModelFile,
                  "only headers, with which the library's kernels are compiled: leave the model out",
                  "a file");
  if (!kernels && !bundle.find(kModelFile))
    throw Refusal("bundle", "",
                  std::string("beside include/ a ") + kPluginFile + ", or a " + kModelFile + " with its " +
                      kWeightsFile + ", which runs with these headers, or the benchmark " + kKernelBenchmark +
                      " alone (pack --benchmark " + kKernelBenchmark + ")",
                  "only headers");
  if (!kernels) return check_model(bundle);
  for (const ArchiveFile& file : bundle.files) require_shown(file);
}

// T2: plugin.cpp and the files that it includes, or headers that replace the library's, or both.
inline void check_plugin(const Bundle& bundle) {
  if (bundle.manifest.division == "closed")
    throw Refusal(kManifestFile, "division", "open, since nobody can check which model a plugin computes",
                  bundle.manifest.division);
  const HeaderSet headers = header_set_of(bundle);
  if (!headers.empty() && !bundle.find(kPluginFile)) return check_headers_alone(bundle);
  check_sources(bundle, kPluginFile, headers);
}

// T1: plan.json and the device code that it launches, without host code.
inline void check_device_code(const Bundle& bundle) {
  if (bundle.manifest.division != kKernelDivision)
    throw Refusal(kManifestFile, "division", std::string(kKernelDivision) + ", since a plan launches kernels",
                  bundle.manifest.division);
  if (!bundle.manifest.hardware.starts_with("gpu("))
    throw Refusal(kManifestFile, "hw_class", "gpu(NAME), since a plan is for a GPU (pack --hardware)",
                  bundle.manifest.hardware);
  check_sources(bundle, device::kPlanFile);
  for (const ArchiveFile& file : bundle.files)
    if (file.path.ends_with(".cpp"))
      throw Refusal("bundle", file.path, "no host code in tier T1: a .cpp file needs tier T2", "a file");
  for (const auto& [name, op] : device::parse_plan(*bundle.find(device::kPlanFile))) {
    try {
      (void)judge::kernels::task_named(name);
    } catch (const std::invalid_argument& e) {
      throw Refusal(device::kPlanFile, "ops." + name, "an op that `tinymlperf kernels` lists", e.what());
    }
    require_file(bundle, op.source.c_str());
  }
}

// If the bundle holds a result.json, its numbers must follow from its samples.
inline void check_result(const Bundle& bundle) {
  const std::string* const text = bundle.find(tinytorch::benchmarking::kResultFile);
  if (!text) return;
  try {
    (void)tinytorch::benchmarking::read_result(*text);
  } catch (const tinytorch::Error& e) {
    throw Refusal(tinytorch::benchmarking::kResultFile, "",
                  "a result whose numbers follow from its samples (benchmarking/submission.hpp)", e.what());
  }
}

}  // namespace detail

// Throws Refusal if the bundle breaks a rule of its tier.
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

// Returns the findings of static_rules.hpp in the submission's source, for a reviewer. Empty for tier T0.
inline std::vector<std::string> reasons_to_look(const Bundle& bundle) {
  std::vector<std::string> out;
  if (bundle.manifest.tier == "T0") return out;
  for (const ArchiveFile& file : bundle.files)
    for (std::string& reason : static_reasons(file.path, file.content)) out.push_back(std::move(reason));
  return out;
}

}  // namespace tinymlperf::bundle
