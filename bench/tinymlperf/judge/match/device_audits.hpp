// C5: runs device code under compute-sanitizer, and twice. This happens before the match, so that a failure
// disturbs nobody.
#pragma once

#include <functional>
#include <stdexcept>
#include <tinymlperf/judge/match/audits.hpp>
#include <tinymlperf/judge/match/stage.hpp>

namespace tinymlperf::judge::kernels {

namespace detail {

inline std::string compute_sanitizer() {
  for (const char* path :
       {"/usr/local/cuda/compute-sanitizer/compute-sanitizer", "/usr/bin/compute-sanitizer"})
    if (std::filesystem::exists(path)) return path;
  return "";
}

// The beginning of a report.
inline std::string shortened(const std::string& text) {
  constexpr size_t kMost = 600;
  return text.size() <= kMost ? text : text.substr(0, kMost) + " ...";
}

}  // namespace detail

// Runs a command with the entry's program as its argument.
using RunAround = std::function<sandbox::Outcome(std::vector<std::string> command)>;

// One audit for each of the sanitizer's tools. `sanitizer` is its path; empty if it is not installed, and
// then no audit is made.
inline std::vector<AuditResult> sanitizer_audits(const std::string& sanitizer, const RunAround& run_around) {
  std::vector<AuditResult> out;
  for (const char* tool : {"memcheck", "racecheck", "initcheck", "synccheck"}) {
    if (sanitizer.empty()) {
      out.push_back({"C5", tool, false,
                     std::string(kNotMade) + "compute-sanitizer is not installed (it comes with CUDA)"});
      continue;
    }
    // An error code that the runtime returns to the judge's own query is no error of the entry.
    const sandbox::Outcome run =
        run_around({sanitizer, "--tool", tool, "--error-exitcode", "99", "--report-api-errors", "no"});
    out.push_back({"C5", tool, run.good(),
                   run.good() ? "compute-sanitizer found nothing on small shapes"
                              : detail::shortened(run.reason + "\n" + run.out + run.err)});
  }
  return out;
}

// The audits of the sanitizer, and one for the second run.
inline std::vector<AuditResult> device_audits(const Stage& stage, uint64_t seed) {
  const std::string drawn = std::to_string(seed);
  const sandbox::Outcome twice = stage.check({}, {"--check", "twice", "--seed", drawn});
  std::vector<AuditResult> out{{"C5", "same bits twice", twice.good(),
                                twice.good()
                                    ? "two runs of each op gave the same bits, or it says that they need not"
                                    : detail::shortened(twice.reason + "\n" + twice.err)}};
  for (AuditResult& a : sanitizer_audits(detail::compute_sanitizer(), [&](std::vector<std::string> command) {
         return stage.check(std::move(command), {"--check", "once", "--seed", drawn});
       }))
    out.push_back(std::move(a));
  return out;
}

// Throws std::invalid_argument if an audit failed: the contender does not play. If an audit could not be made
// it plays and is not ranked.
inline void require_passed(const std::vector<AuditResult>& audits) {
  for (const AuditResult& a : audits)
    if (!a.passed && was_made(a))
      throw std::invalid_argument("audit " + a.id + ", " + a.name + ": " + a.detail);
}

}  // namespace tinymlperf::judge::kernels
