// Occupancy: the fraction of a multiprocessor's warps that a kernel can keep resident, and the resource that
// limits it.
//
// The frame of a course header: it has the given parts, and includes the functions of task 5.10. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <tinytorch/core/error.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

// The limits of one multiprocessor. All of these have 65,536 registers.
struct MultiprocessorLimits {
  int major = 0, minor = 0;  // compute capability
  int warps = 0;
  int blocks = 0;
  int shared_bytes = 0;      // for all resident blocks
  int shared_unit = 0;       // allocation granularity per block
  int shared_of_system = 0;  // reserved by the system per block, in addition to the block's own
};

inline MultiprocessorLimits limits_of(int major, int minor) {
  constexpr std::array<MultiprocessorLimits, 8> kKnown{{
      {7, 0, 64, 32, 98304, 256, 0},
      {7, 5, 32, 16, 65536, 256, 0},
      {8, 0, 64, 32, 167936, 128, 1024},
      {8, 6, 48, 16, 102400, 128, 1024},
      {8, 9, 48, 24, 102400, 128, 1024},
      {9, 0, 64, 32, 233472, 128, 1024},
      {10, 0, 64, 32, 233472, 128, 1024},
      {12, 0, 48, 24, 102400, 128, 1024},
  }};
  for (const MultiprocessorLimits& known : kKnown) {
    if (known.major == major && known.minor == minor) return known;
  }
  fail("TT-PROF-02", "the limits of compute capability " + std::to_string(major) + "." +
                         std::to_string(minor) + " are unknown\n  hint: add them to limits_of()");
}

// The resources of a kernel launch.
struct KernelNeeds {
  int threads = 0;       // per block
  int registers = 0;     // per thread
  int shared_bytes = 0;  // per block, static and dynamic
};

struct Occupancy {
  int blocks = 0;     // resident blocks on a multiprocessor
  int warps = 0;      // resident warps
  double share = 0;   // fraction of the maximum number of warps
  std::string limit;  // "threads", "blocks", "registers" or "shared memory": the first that is exhausted
};

inline Occupancy occupancy_of(const KernelNeeds& kernel, const MultiprocessorLimits& sm);  // task 5.10

}  // namespace tinytorch::inline TT_BUILD::profiling

#include <tasks/profiling/occupancy.hpp>
