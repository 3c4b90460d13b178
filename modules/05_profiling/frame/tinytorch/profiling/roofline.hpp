// The roofline model: the highest speed of a piece of work, given its FLOPs per byte of memory traffic.
//
// The frame of a course header: it has the given parts, and includes the functions of task 5.6. It is cut
// from the library's header by modules/frames.py.
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

  // Task 5.6.
  double ridge() const;  // FLOP per byte
};

inline double attainable(double intensity, const MachinePeaks& c);  // task 5.6
inline double floor_seconds(Cost cost, const MachinePeaks& c);      // task 5.6

enum class Limit { overhead, memory, compute };

inline const char* name_of(Limit limit) {
  constexpr const char* kNames[] = {"overhead", "memory", "compute"};
  return kNames[static_cast<int>(limit)];
}

inline Limit limit_of(Cost cost, int64_t calls, const MachinePeaks& c);  // task 5.6
inline Limit limit_of(const ProfileRow& row, const MachinePeaks& c) {
  return limit_of(row.cost, row.calls, c);
}

inline double share_of_limit(const ProfileRow& row, const MachinePeaks& c);  // task 5.6

}  // namespace tinytorch::inline TT_BUILD::profiling

#include <tasks/profiling/roofline.hpp>
