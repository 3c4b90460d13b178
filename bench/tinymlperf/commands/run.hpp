// `tinymlperf run ENTRY...`: a match between models, each in a sandboxed process, on a hidden set drawn now.
// With --benchmark ttq it is `run-training`, and with --benchmark krn `run-kernels`: older spellings of both.
//
// The first entry is the baseline. Writes run.json with every sample, so that anyone can form the numbers
// again.
#pragma once

#include <tinymlperf/commands/run_kernels.hpp>
#include <tinymlperf/commands/run_training.hpp>

namespace tinymlperf {

// Exit status: 0 the match was played and written, 1 it was played and shown, but could not be written, 2 it
// could not be played as asked.
inline int run_match(const RunOptions& o) {
  if (!o.text.empty() && o.benchmark != "lm")
    return detail::complain("--text: only lm is asked about a text, not " + o.benchmark);
  return o.benchmark == kKernelBenchmark ? run_kernel_match(o) : detail::play_and_keep(o);
}

}  // namespace tinymlperf
