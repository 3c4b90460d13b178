// `tinymlperf run ENTRY...`: a match between models, each in a sandboxed process, on a hidden set drawn now.
// `run --benchmark ttq` and `run --benchmark krn` are older spellings of `run-training` and `run-kernels`.
//
// The first entry is the baseline. run.json holds every sample, so that the numbers can be recomputed.
#pragma once

#include <tinymlperf/commands/run_kernels.hpp>
#include <tinymlperf/commands/run_training.hpp>

namespace tinymlperf {

// Exit status: 0 the match was played and written, 1 it was played and shown but could not be written, 2 it
// could not be played as asked.
inline int run_match(const RunOptions& o) {
  if (!o.text.empty() && o.benchmark != "lm")
    return detail::complain("--text: only lm is asked about a text, not " + o.benchmark);
  return o.benchmark == kKernelBenchmark ? run_kernel_match(o) : detail::play_and_keep(o);
}

}  // namespace tinymlperf
