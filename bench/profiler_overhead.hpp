// What a profiler costs the ops that it watches: three states in turns, and what may be said of them.
//
//   bare      the op past the gate's observers (tt::execute): what it takes where there is no profiler to
//   attach detached  through the gate, no profiler attached, though there were some before attached  through
//   the gate, and watched
// A block gives each state one turn in random order, all in one process; a ratio is that of
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
  bool judged = false;                       // an op of about 1 ms, of which the limits are
  std::vector<std::vector<double>> seconds;  // of a call, [state][block]
  tinytorch::statistics::Interval attached;  // times detached
  tinytorch::statistics::Interval detached;  // times bare

  const std::vector<double>& of(ProfilerState s) const { return seconds[static_cast<size_t>(s)]; }
};

// `turn(state)` gives the seconds of a call in one turn. From 6 blocks on.
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
  // "None" cannot be measured; a thousandth of 1 ms is a microsecond, and a test of a pointer takes
  // nanoseconds.
  double detached = 0.001;
};

// What the measurement shows to be too slow: beyond a limit with the whole interval. Empty: nothing. Only
// judged work counts.
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

// The first size of first, first * growth, ... for which a call takes at least `seconds`, by the best of
// three.
template <class TimeOfSize>
int64_t size_that_takes(double seconds, int64_t first, double growth, TimeOfSize&& time_of_size) {
  for (auto size = static_cast<double>(first);; size *= growth) {
    const auto n = static_cast<int64_t>(size);
    double best = time_of_size(n);  // which warms up
    for (int i = 0; i < 3; ++i) best = std::min(best, time_of_size(n));
    if (best >= seconds) return n;
  }
}

}  // namespace bench
