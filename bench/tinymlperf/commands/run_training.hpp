// `tinymlperf run-training ENTRY...`: a match between trainings. The entry that trains its model to the
// target sooner is better. Writes run.json, as `run` does.
#pragma once

#include <tinymlperf/commands/play_and_keep.hpp>

namespace tinymlperf {

// Exit status as in run_match().
inline int run_training_match(const RunOptions& o) {
  RunOptions training = o;
  training.scenario = judge::name_of(judge::Scenario::time_to_quality);
  return detail::play_and_keep(training);
}

}  // namespace tinymlperf
