// C5: device code under compute-sanitizer, and run twice. Before the match, so that what breaks disturbs nobody.
#pragma once

#include <tinymlperf/judge/audits.hpp>
#include <tinymlperf/judge/stage.hpp>

namespace tinymlperf::judge::kernels {

namespace detail {

inline std::string compute_sanitizer() {
  for (const char* path :
       {"/usr/local/cuda/compute-sanitizer/compute-sanitizer", "/usr/bin/compute-sanitizer"})
    if (std::filesystem::exists(path)) return path;
  return "";
}

// The first lines of a report that say something.
inline std::string shortened(const std::string& text) {
  constexpr size_t kMost = 600;
  return text.size() <= kMost ? text : text.substr(0, kMost) + " ...";
}

}  // namespace detail

// One for each of the sanitizer's tools, and one for the second run. Where the sanitizer is not installed, it says so
// and counts as passed.
inline std::vector<AuditResult> device_audits(const Stage& stage, uint64_t seed) {
  std::vector<AuditResult> out;
  const sandbox::Outcome twice = stage.check({}, {"--check", "twice", "--seed", std::to_string(seed)});
  out.push_back({"C5", "same bits twice", twice.good(),
                 twice.good() ? "two runs of each op gave the same bits, or it says that they need not"
                              : detail::shortened(twice.reason + "\n" + twice.err)});
  const std::string sanitizer = detail::compute_sanitizer();
  // That the runtime answered "no" to a question of ours is no error of the entry's.
  for (const char* tool : {"memcheck", "racecheck", "initcheck", "synccheck"}) {
    if (sanitizer.empty()) {
      out.push_back({"C5", tool, true, "not run: compute-sanitizer is not installed"});
      continue;
    }
    const sandbox::Outcome run =
        stage.check({sanitizer, "--tool", tool, "--error-exitcode", "99", "--report-api-errors", "no"},
                    {"--check", "once", "--seed", std::to_string(seed)});
    out.push_back({"C5", tool, run.good(),
                   run.good() ? "compute-sanitizer found nothing on small shapes"
                              : detail::shortened(run.reason + "\n" + run.out + run.err)});
  }
  return out;
}

}  // namespace tinymlperf::judge::kernels
