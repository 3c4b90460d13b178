// The roofline: how fast a piece of work can be on a machine, given how many FLOPs it does per byte it moves.
//
// Work of few FLOPs per byte waits for memory: the more FLOPs, the faster, up to the ridge, from where on
// arithmetic is the limit. Work so small that starting it takes longer than doing it has neither limit, but
// overhead. Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM
// 2009; the third class is this project's.
#pragma once

#include <algorithm>
#include <string>
#include <tinytorch/profiling/profile.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

// What a machine can do at best: measured by ceilings.hpp.
struct Ceilings {
  double flops_per_second = 0;
  double bytes_per_second = 0;  // read plus written
  double seconds_per_op = 0;    // of an op that does next to nothing
  std::string device;           // "AMD EPYC 9B14, 2 threads"

  // The intensity at which memory and arithmetic take the same time.
  double ridge() const { return flops_per_second / bytes_per_second; }  // FLOP per byte
};

// FLOP/s that the machine can reach at best in work of `intensity` FLOP per byte.
inline double attainable(double intensity, const Ceilings& c) {
  return std::min(c.flops_per_second, intensity * c.bytes_per_second);
}

// The least time for the work: arithmetic and memory side by side, each at its peak. Seconds.
inline double floor_seconds(Cost cost, const Ceilings& c) {
  return std::max(cost.flops / c.flops_per_second, cost.bytes / c.bytes_per_second);
}

enum class Limit { overhead, memory, compute };

inline const char* name_of(Limit limit) {
  constexpr const char* kNames[] = {"overhead", "memory", "compute"};
  return kNames[static_cast<int>(limit)];
}

// What limits `calls` calls that do `cost` together: overhead, if the floor of one call is shorter than an op
// that does next to nothing; else whichever of arithmetic and memory takes longer. On the ridge it is memory.
// No calls and no work are overhead.
inline Limit limit_of(Cost cost, int64_t calls, const Ceilings& c) {
  const double each = calls > 0 ? floor_seconds(cost, c) / static_cast<double>(calls) : 0;
  if (each < c.seconds_per_op) return Limit::overhead;
  return cost.flops / c.flops_per_second > cost.bytes / c.bytes_per_second ? Limit::compute : Limit::memory;
}
inline Limit limit_of(const ProfileRow& row, const Ceilings& c) { return limit_of(row.cost, row.calls, c); }

// Which share of the time that a row took it would have needed at the limit: 1 is as fast as the machine can.
inline double share_of_limit(const ProfileRow& row, const Ceilings& c) {
  return row.seconds > 0 ? floor_seconds(row.cost, c) / row.seconds : 0;
}

}  // namespace tinytorch::inline TT_BUILD::profiling
