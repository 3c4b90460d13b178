// Occupancy: the fraction of a multiprocessor's warps that a kernel can keep resident, and the resource that
// limits it.
//
// A block stays resident on its multiprocessor until it ends, and holds its threads, registers and shared
// memory. Each resource alone allows a number of blocks, and the smallest one decides. More resident warps
// hide more memory latency, up to a point.
// Sources: CUDA C++ Programming Guide, "Compute Capabilities" (the limits); the CUDA occupancy calculator
// (the allocation of registers and shared memory).
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

// The number of blocks of a kernel that fit on a multiprocessor at once. Each resource alone allows a number
// of blocks:
//
//   threads        sm.warps, where a block takes whole warps of 32 threads
//   blocks         sm.blocks
//   registers      65,536, where a warp takes 32 times those of a thread, rounded up to a multiple of 256
//   shared memory  sm.shared_bytes, where a block takes its own and sm.shared_of_system, rounded up to a
//                  multiple of sm.shared_unit
//
// Each of four schedulers has a quarter of the registers and gives them to whole warps; the warps that fit on
// the four schedulers together are divided among blocks. No block fits if a thread needs more than 255
// registers, or if the warps of one block, rounded up to a multiple of four, need more than all registers. A
// kernel that needs no registers, or no shared memory, is not limited by them. The smallest number decides;
// among equal ones `limit` is the first in this list. Throws TT-PROF-03 for less than 1 or more than 1024
// threads, or a negative number.
inline Occupancy occupancy_of(const KernelNeeds& kernel, const MultiprocessorLimits& sm) {
  const auto up = [](int n, int unit) { return (n + unit - 1) / unit * unit; };
  if (kernel.threads < 1 || kernel.threads > 1024 || kernel.registers < 0 || kernel.shared_bytes < 0) {
    fail("TT-PROF-03",
         "occupancy_of: a block has 1 to 1024 threads, and no negative number of registers or bytes");
  }
  const int warps = (kernel.threads + 31) / 32;
  const int registers_per_warp = up(kernel.registers * 32, 256);
  const int shared = up(kernel.shared_bytes + sm.shared_of_system, sm.shared_unit);
  constexpr int kPlenty = 1 << 20, kSchedulers = 4, kSchedulerRegisters = 16384;
  const int registers =
      registers_per_warp == 0 ? kPlenty : kSchedulerRegisters / registers_per_warp * kSchedulers;
  const bool fits = registers_per_warp * up(warps, kSchedulers) <= kSchedulers * kSchedulerRegisters;
  const std::array<std::pair<int, const char*>, 4> allowed{{
      {sm.warps / warps, "threads"},
      {sm.blocks, "blocks"},
      {fits && kernel.registers <= 255 ? registers / warps : 0, "registers"},
      {shared == 0 ? kPlenty : sm.shared_bytes / shared, "shared memory"},
  }};
  const auto scarcest =
      std::min_element(allowed.begin(), allowed.end(), [](auto a, auto b) { return a.first < b.first; });
  Occupancy o;
  o.blocks = scarcest->first;
  o.warps = o.blocks * warps;
  o.share = static_cast<double>(o.warps) / sm.warps;
  o.limit = scarcest->second;
  return o;
}

}  // namespace tinytorch::inline TT_BUILD::profiling
