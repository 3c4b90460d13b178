// Timing several contenders side by side: warm-up, calls per block, turns; their order is schedule.hpp's.
//
// Warm-up ends when two consecutive medians differ by less than 1 %, or at a time limit, and says which; its
// samples are never reported. The rule is this project's (1 %, at most 3 s).
#pragma once

#include <algorithm>
#include <cstdint>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/benchmarking/schedule.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::benchmarking {

// Seconds that each of `calls` calls of f took.
template <class F, class Clock = SteadyClock>
std::vector<double> time_calls(F&& f, int64_t calls, Clock&& clock = {}) {
  std::vector<double> seconds;
  seconds.reserve(static_cast<size_t>(calls));
  for (int64_t i = 0; i < calls; ++i) {
    const double start = clock();
    f();
    seconds.push_back(clock() - start);
  }
  return seconds;
}

struct WarmUpOptions {
  int64_t window = 5;        // calls per median
  double tolerance = 0.01;   // relative change between two medians that counts as settled
  double seconds_limit = 3;  // checked between windows
};

struct WarmUp {
  double median = 0;  // of the last window, seconds per call: what to plan with, not a result
  int64_t calls = 0;
  double seconds = 0;
  bool settled = false;
};

template <class F, class Clock = SteadyClock>
WarmUp warm_up(F&& f, const WarmUpOptions& options = {}, Clock&& clock = {}) {
  WarmUp result;
  const double start = clock();
  for (double previous = 0;; previous = result.median) {
    result.median = statistics::median(time_calls(f, options.window, clock));
    result.calls += options.window;
    result.seconds = clock() - start;
    result.settled = statistics::medians_agree(previous, result.median, options.tolerance);
    if (result.settled || result.seconds >= options.seconds_limit) return result;
  }
}

// How many calls of `seconds_per_call` fit into `budget` seconds, within [fewest, most].
inline int64_t calls_within(double budget, double seconds_per_call, int64_t fewest, int64_t most) {
  if (!(seconds_per_call > 0) || budget / seconds_per_call >= static_cast<double>(most)) return most;
  return std::max(fewest, static_cast<int64_t>(budget / seconds_per_call));
}

// One value of each contender for each block, [contender][block]: the geometric mean of what
// `turn(contender)` gives for its turns in that block, above 0. Turns are taken in the order of the blocks;
// contenders are those that a block names. Of two contenders this is what statistics::paired_ratio compares.
template <class Turn>
std::vector<std::vector<double>> take_turns(const std::vector<std::vector<size_t>>& blocks, Turn&& turn) {
  std::vector<std::vector<double>> values;
  for (const auto& block : blocks) {
    std::vector<std::vector<double>> of_block;
    for (const size_t contender : block) {
      if (contender >= of_block.size()) of_block.resize(contender + 1);
      of_block[contender].push_back(turn(contender));
    }
    values.resize(std::max(values.size(), of_block.size()));
    for (size_t i = 0; i < of_block.size(); ++i) values[i].push_back(statistics::geometric_mean(of_block[i]));
  }
  return values;
}

}  // namespace tinytorch::inline TT_BUILD::benchmarking
