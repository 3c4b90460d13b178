// Plays a match between models, trainings or kernels.
#pragma once

#include <tinymlperf/judge/match/play_kernels.hpp>
#include <tinymlperf/judge/match/play_models.hpp>
#include <tinymlperf/judge/match/play_training.hpp>
#include <tinymlperf/judge/results/any_run.hpp>

namespace tinymlperf {

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
