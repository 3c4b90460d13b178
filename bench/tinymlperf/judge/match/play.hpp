// Plays a match between models, trainings or kernels.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tinymlperf/judge/match/play_kernels.hpp>
#include <tinymlperf/judge/match/play_models.hpp>
#include <tinymlperf/judge/match/play_training.hpp>
#include <tinymlperf/judge/results/any_run.hpp>

namespace tinymlperf {

// The most time that the processes of the contenders may run, which is known before the match. Throws
// std::invalid_argument for a class that does not exist.
inline std::string budget_text(const RunOptions& o) {
  const auto entries = static_cast<double>(o.entries.size() + o.student_entries.size());
  double each = 0, all = 0;
  if (o.benchmark == kKernelBenchmark) {
    each = detail::kernel_class_named(o.run_class).budget, all = entries * each;
  } else if (is_training(detail::resolved(o).benchmark)) {
    const judge::TrainingClass& c = judge::training_class_named(o.run_class);
    each = static_cast<double>(c.runs) * (2 * detail::kUntimedSeconds + c.seconds);
    all = (entries + 1) * each;  // the reference has twice as many runs
  } else {
    each = judge::budget_of(detail::run_class_named(o.run_class), o.scenario == "server");
    all = entries * each;
  }
  return fmt::format(
      "budget: {:.3g} min of running time for each entry, {:.3g} min in all; an entry that uses up its own "
      "is out",
      each / 60, all / 60);
}

// A match between models or trainings. Throws std::invalid_argument when it cannot be played as asked.
inline judge::RunDocument play(const RunOptions& options) {
  const RunOptions o = detail::resolved(options);
  return is_training(o.benchmark) ? play_training(o) : play_models(o);
}

inline judge::AnyRun play_any(const RunOptions& o) {
  if (o.benchmark == kKernelBenchmark) return play_kernels(o);
  return play(o);
}

}  // namespace tinymlperf
