// The roofline model: the highest speed of a piece of work, given its FLOPs per byte of memory traffic.
//
// Below the ridge, work is memory-bound, and its attainable FLOP/s grow with its intensity. Above the ridge
// it is compute-bound. Work that takes less time than the overhead of an op is classified as overhead; this
// third class is an addition of this project.
// Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 2009.
#pragma once

#include <algorithm>
#include <string>
#include <tinytorch/profiling/profile.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

// The peak rates of a machine; peaks.hpp measures them.
struct MachinePeaks {
  double flops_per_second = 0;
  double bytes_per_second = 0;  // bytes read plus bytes written
  double seconds_per_op = 0;    // overhead: the time of an op on one element
  std::string device;           // "AMD EPYC 9B14, 2 threads"

  // The intensity at which memory and arithmetic take the same time.
  double ridge() const { return flops_per_second / bytes_per_second; }  // FLOP per byte
};

// The highest FLOP/s that the machine can reach with work of `intensity` FLOP per byte.
inline double attainable(double intensity, const MachinePeaks& c) {
  return std::min(c.flops_per_second, intensity * c.bytes_per_second);
}

// The shortest possible time of the work in seconds: arithmetic and memory traffic overlap, each at its peak.
inline double floor_seconds(Cost cost, const MachinePeaks& c) {
  return std::max(cost.flops / c.flops_per_second, cost.bytes / c.bytes_per_second);
}

enum class Limit { overhead, memory, compute };

inline const char* name_of(Limit limit) {
  constexpr const char* kNames[] = {"overhead", "memory", "compute"};
  return kNames[static_cast<int>(limit)];
}

// The limit of `calls` calls whose total cost is `cost`. It is overhead if floor_seconds of one call is less
// than seconds_per_op, otherwise the slower of arithmetic and memory, and memory on the ridge itself. The
// limit of no calls, and of no work, is overhead.
inline Limit limit_of(Cost cost, int64_t calls, const MachinePeaks& c) {
  const double each = calls > 0 ? floor_seconds(cost, c) / static_cast<double>(calls) : 0;
  if (each < c.seconds_per_op) return Limit::overhead;
  return cost.flops / c.flops_per_second > cost.bytes / c.bytes_per_second ? Limit::compute : Limit::memory;
}
inline Limit limit_of(const ProfileRow& row, const MachinePeaks& c) {
  return limit_of(row.cost, row.calls, c);
}

// floor_seconds of the row divided by the seconds that it took: 1 is the highest speed of the machine. 0 for
// a row that took no time.
inline double share_of_limit(const ProfileRow& row, const MachinePeaks& c) {
  return row.seconds > 0 ? floor_seconds(row.cost, c) / row.seconds : 0;
}

}  // namespace tinytorch::inline TT_BUILD::profiling
