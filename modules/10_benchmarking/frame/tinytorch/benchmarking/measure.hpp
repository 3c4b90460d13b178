// Timing of several contenders: warm-up, calls per block, and turns in the order of schedule.hpp.
//
// The frame of a course header: it has the given parts, and includes the functions of task 10.6. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/benchmarking/schedule.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::benchmarking {

template <class F, class Clock = SteadyClock>
std::vector<double> time_calls(F&& f, int64_t calls, Clock&& clock = {});  // task 10.6

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
WarmUp warm_up(F&& f, const WarmUpOptions& options = {}, Clock&& clock = {});  // task 10.6
// Task 10.6.
inline int64_t calls_within(double budget, double seconds_per_call, int64_t fewest, int64_t most);
// Task 10.6.
template <class Turn>
std::vector<std::vector<double>> take_turns(const std::vector<std::vector<size_t>>& blocks, Turn&& turn);

}  // namespace tinytorch::inline TT_BUILD::benchmarking

#include <tasks/benchmarking/measure.hpp>
