// Measures by how much a profiler slows the ops that it observes. There are three states:
//
//     bare      tt::execute, which calls no observers: the time of a library without profilers
//     detached  tt::apply with no profiler attached at the moment
//     attached  tt::apply with a profiler attached
// A block measures each state once, in random order, in one process; ratios are those of
// statistics::paired_ratio.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/benchmarking/paired_ratio.hpp>
#include <vector>

namespace bench {

enum class ProfilerState : size_t { bare, detached, attached };
inline constexpr size_t kProfilerStates = 3;

struct Overhead {
  std::string work;
  bool judged = false;                       // the limits hold for this work, an op of about 1 ms
  std::vector<std::vector<double>> seconds;  // per call, [state][block]
  tinytorch::statistics::Interval attached;  // ratio of the time attached to the time detached
  tinytorch::statistics::Interval detached;  // ratio of the time detached to the time bare

  const std::vector<double>& of(ProfilerState s) const { return seconds[static_cast<size_t>(s)]; }
};

// turn(state) measures the state once and returns the seconds of a call. There must be at least 6 blocks.
template <class Turn>
Overhead measure_overhead(const std::string& work, bool judged, size_t blocks, uint64_t seed, Turn&& turn) {
  const auto order = tinytorch::benchmarking::random_blocks(kProfilerStates, blocks, seed);
  Overhead o{work, judged, {}, {}, {}};
  o.seconds = tinytorch::benchmarking::take_turns(
      order, [&](size_t state) { return turn(static_cast<ProfilerState>(state)); });
  using tinytorch::statistics::paired_ratio;
  o.attached = paired_ratio(o.of(ProfilerState::attached), o.of(ProfilerState::detached)).value();
  o.detached = paired_ratio(o.of(ProfilerState::detached), o.of(ProfilerState::bare)).value();
  return o;
}

struct OverheadLimits {
  double attached = 0.03;
  // A detached profiler should cost nothing, but zero cannot be measured. 0.1 % of 1 ms is a microsecond,
  // while the test of a pointer takes nanoseconds.
  double detached = 0.001;
};

// A message if the whole confidence interval of judged work is above a limit; else empty.
inline std::string objection(const Overhead& o, const OverheadLimits& limits = {}) {
  if (!o.judged) return "";
  const auto beyond = [&](const char* state, const tinytorch::statistics::Interval& ratio, double limit) {
    if (ratio.low < 1 + limit) return std::string();
    return fmt::format("{}: a profiler that is {} costs at least {:.2f} %, and may cost {:g} %", o.work,
                       state, 100 * (ratio.low - 1), 100 * limit);
  };
  const std::string attached = beyond("attached", o.attached, limits.attached);
  return attached.empty() ? beyond("detached", o.detached, limits.detached) : attached;
}

// The first of the sizes first, first * growth, ... for which a call takes at least `seconds`; the best of
// three calls counts.
template <class TimeOfSize>
int64_t size_that_takes(double seconds, int64_t first, double growth, TimeOfSize&& time_of_size) {
  for (auto size = static_cast<double>(first);; size *= growth) {
    const auto n = static_cast<int64_t>(size);
    double best = time_of_size(n);  // this call warms up, too
    for (int i = 0; i < 3; ++i) best = std::min(best, time_of_size(n));
    if (best >= seconds) return n;
  }
}

}  // namespace bench
