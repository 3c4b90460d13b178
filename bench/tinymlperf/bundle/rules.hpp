// What a submission must hold beyond a sound bundle, so that the judge can run it: the rules of its tier. Read by
// `tinymlperf check`, and by the leaderboard when it takes a bundle in; one answer for both.
#pragma once

#include <string>
#include <tinymlperf/bundle/bundle.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/judge/benchmarks.hpp>
#include <tinymlperf/judge/run_document.hpp>

namespace tinymlperf::bundle {

constexpr int64_t kTextBytes = int64_t{1} << 18;  // of a file that pages show

// What pages show as text: of a known kind, not too long, UTF-8 without control characters.
inline bool is_text_path(const std::string& path) {
  for (const char* end : {".json", ".md", ".txt", ".cpp", ".hpp", ".cu", ".cuh"})
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

namespace detail {

inline void check_names(const Manifest& m) {
  for (const std::string& b : m.benchmarks) {
    try {
      judge::make_benchmark(b);
    } catch (const std::invalid_argument&) {
      throw Refusal(kManifestFile, "benchmark", "of " + judge::benchmark_ids(), show(Json(b)));
    }
  }
  for (const std::string& s : m.scenarios) {
    try {
      judge::scenario_named(s);
    } catch (const std::invalid_argument& e) {
      throw Refusal(kManifestFile, "scenario", "a scenario that a match can have", e.what());
    }
  }
}

// T0 is data alone: a model and its weights, and texts about them that nobody runs.
inline void check_data(const Bundle& bundle) {
  for (const char* path : {kModelFile, kWeightsFile})
    if (!bundle.find(path)) throw Refusal("bundle", "", std::string("a file ") + path, "none");
  for (const ArchiveFile& file : bundle.files)
    if (file.path != kWeightsFile && !is_shown(file))
      throw Refusal("bundle", file.path,
                    "text (.json, .md, .txt, .cpp, .hpp, .cu, .cuh; UTF-8; at most " +
                        std::to_string(kTextBytes) + " bytes)",
                    "something else");
  const TemporaryFolder folder;
  unpack(bundle, folder.path() / "entry");
  try {
    const Entry entry = load_entry(folder.path() / "entry", task_of(bundle.manifest.benchmarks.front()));
    if (entry.network.spec().name != bundle.manifest.name)
      throw Refusal(kModelFile, "name", "the manifest's name " + bundle.manifest.name,
                    entry.network.spec().name);
  } catch (const tinytorch::Error& e) {
    throw Refusal(kWeightsFile, "", "weights that can be read", e.what());
  }
}

}  // namespace detail

// Throws Refusal when the judge cannot run it.
inline void check_rules(const Bundle& bundle) {
  detail::check_names(bundle.manifest);
  if (bundle.manifest.tier != "T0")
    throw Refusal(kManifestFile, "tier", "T0, the tier that this judge runs from a bundle",
                  bundle.manifest.tier);
  detail::check_data(bundle);
}

}  // namespace tinymlperf::bundle
