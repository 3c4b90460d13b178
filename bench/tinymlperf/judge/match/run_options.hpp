// The options of a match, and what all matches need: folders, a seed, a sandbox, the machine's peak rates.
#pragma once

#include <filesystem>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <tinymlperf/benchmarks/task.hpp>
#include <tinymlperf/judge/match/audits.hpp>
#include <tinymlperf/judge/match/progress.hpp>
#include <tinymlperf/sandbox/sandbox.hpp>
#include <tinytorch/profiling/peaks.hpp>
#include <vector>

namespace tinymlperf {

struct RunOptions {
  std::vector<std::filesystem::path> entries;
  // The entry whose float weights packed ones of the closed division come from; empty: the first.
  std::filesystem::path baseline = {};
  std::string benchmark = kDigitsBenchmark;
  std::string scenario;  // empty: single_stream, or time_to_quality for trainings
  std::string division = "open", run_class = "smoke";
  std::filesystem::path out = "build/run";
  std::filesystem::path text = {};  // for lm: a text file instead of the generated text
  std::optional<uint64_t> seed;     // seed of the hidden set and the order; empty: from the operating system
  std::optional<int64_t> hidden;    // samples; empty: as many as the class has
  std::vector<std::string> ops;     // for krn; empty: all
  bool real_time = true;            // real-time priority, where the system allows it
  // `tinymlperf` of a build on a student's headers. It answers for `student_entries`, which are entries of
  // data and come after the others as NAME-student. For local runs only: a board's worker has none.
  std::filesystem::path worker = {};
  std::vector<std::filesystem::path> student_entries = {};
  judge::Watcher watcher = {};  // called between blocks with the progress
};

namespace detail {

inline judge::RemeasuredPeaks peaks_of_machine() {
  return judge::RemeasuredPeaks([] {
    const tinytorch::profiling::MachinePeaks c = tinytorch::profiling::measure_peaks(tinytorch::cpu);
    return judge::RemeasuredPeaks::Rates{c.flops_per_second, c.bytes_per_second};
  });
}
// The peak is that of the tensor cores in bf16, since a kernel may use them for every dtype. Reading alone is
// a quarter faster than the triad.
inline judge::RemeasuredPeaks peaks_of_device() {
  return judge::RemeasuredPeaks([] {
    const tinytorch::profiling::MachinePeaks c =
        tinytorch::profiling::measure_peaks(tinytorch::cuda, tinytorch::bf16);
    return judge::RemeasuredPeaks::Rates{c.flops_per_second, 1.25 * c.bytes_per_second};
  });
}

inline void require_folder(const std::filesystem::path& entry) {
  if (!std::filesystem::is_directory(entry))
    throw std::invalid_argument(entry.string() + ": expected a folder, found none");
}
inline void require_worker(const std::filesystem::path& worker) {
  if (!worker.empty() && !std::filesystem::is_regular_file(worker))
    throw std::invalid_argument(
        "--worker " + worker.string() +
        ": expected `tinymlperf` of a build with TINYTORCH_STUDENT, found no program");
}
inline void require_folders(const RunOptions& o) {
  for (const auto& entry : o.entries) require_folder(entry);
  for (const auto& entry : o.student_entries) require_folder(entry);
  require_worker(o.worker);
}

inline uint64_t seed_of(const RunOptions& o) {
  std::random_device device;
  return o.seed.value_or((uint64_t{device()} << 32) | device());
}

// `real_time` is for matches of turns. A training would keep the machine from every other process for
// minutes.
inline sandbox::Offers sandbox_of_machine(bool real_time = false) {
  sandbox::Offers offers = sandbox::probe();
  sandbox::require(offers, sandbox::Level::basic);
  if (real_time) sandbox::probe_real_time(offers);
  return offers;
}

}  // namespace detail

}  // namespace tinymlperf
