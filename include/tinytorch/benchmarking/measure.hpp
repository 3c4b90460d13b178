// Timing of several contenders: warm-up, calls per block, and turns in the order of schedule.hpp.
//
// The warm-up ends when two consecutive medians differ by at most 1 %, or at a time limit, and reports which;
// its samples are never results. The rule (1 %, at most 3 s) is this project's own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/benchmarking/schedule.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::benchmarking {

// The seconds of each of `calls` calls of f.
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
  double tolerance = 0.01;   // largest relative change between two medians that counts as settled
  double seconds_limit = 3;  // checked between windows
};

struct WarmUp {
  double median = 0;  // seconds per call in the last window, for planning only
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

// The number of calls of `seconds_per_call` that fit into `budget` seconds, within [fewest, most].
inline int64_t calls_within(double budget, double seconds_per_call, int64_t fewest, int64_t most) {
  if (!(seconds_per_call > 0) || budget / seconds_per_call >= static_cast<double>(most)) return most;
  return std::max(fewest, static_cast<int64_t>(budget / seconds_per_call));
}

// Measures one value per contender and block, [contender][block]: the geometric mean of the results of
// `turn(contender)`, which are > 0, over the contender's turns in the block. Turns are taken in the order of
// the blocks; the contenders are those that the blocks name. For two contenders, statistics::paired_ratio
// compares these values.
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
