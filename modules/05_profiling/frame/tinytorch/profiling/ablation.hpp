// Ablation: the speedup of each of several optimizations alone, of all but each, and of all together.
//
// The frame of a course header: it has the given parts, and includes the functions of task 5.9. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <functional>
#include <string>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/benchmarking/paired_ratio.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::profiling {

struct Optimization {
  std::string name;
  std::function<void(bool on)> set;
};

struct AblationRow {
  std::string name;              // "none", "bf16", "all but bf16", "all"
  statistics::Interval seconds;  // median of a call, for display; 95 % only if blocks are independent
  statistics::Interval speedup;  // relative to "none", 95 %
  std::vector<double> samples;   // seconds of each call
};

struct Ablation {
  std::vector<AblationRow> rows;  // in the order: none, each alone, all but each, all
  // The product of the speedups of each alone: the speedup of all together if no optimization affected
  // another. The last row is the measured one.
  double expected = 1;
};

struct AblationOptions {
  int64_t blocks = 11;  // samples of each setting; an interval of 95 % needs at least 6
  int64_t warm_up = 2;  // calls before the first sample of a setting, in each block
  uint64_t seed = 0;    // seed of the random order
};

namespace detail {
struct AblationSetting {
  std::string name;
  std::vector<bool> on;  // one per optimization
};
// Task 5.9.
inline std::vector<AblationSetting> ablation_settings(const std::vector<Optimization>& optimizations);
}  // namespace detail

template <class Step, class Clock = benchmarking::SteadyClock>
Ablation ablate(const std::vector<Optimization>& optimizations, Step&& step,
                const AblationOptions& options = {}, Clock&& clock = {});  // task 5.9

}  // namespace tinytorch::inline TT_BUILD::profiling

#include <tasks/profiling/ablation.hpp>
