// Emulation of warpgroup_bytes.cuh (wgmma of signed bytes): each lane computes its own sums from the rows of
// a and b that it reads from shared memory.
#pragma once

#include <tinytorch/backend/cuda/sim/warpgroup.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

// A line of 32 bytes of shared memory from `address` on, with 128-byte swizzle.
inline void load_line(int8_t (&line)[32], const unsigned char* shared, unsigned address) {
  for (unsigned half = 0; half < 2; ++half) {
    const uint4 piece = *reinterpret_cast<const uint4*>(shared + swizzled(address + half * 16));
    __builtin_memcpy(&line[half * 16], &piece, sizeof(piece));
  }
}
// sum [64, 256] += a [64, 32] b [256, 32]^T for this lane's rows and columns.
inline void multiply_bytes(int (&sum)[32][4], const unsigned char* shared, unsigned a, unsigned b,
                           Loc where = Loc::current()) {
  const unsigned thread = thread_index().x % 128, lane = thread % 32;
  (void)vote(0xffffffffu, true, false, "wgmma", where);  // all lanes of a warp take part
  int8_t rows[2][32], column[32];
  for (unsigned half = 0; half < 2; ++half) {
    load_line(rows[half], shared, a + (thread / 32 * 16 + lane / 4 + half * 8) * 128);
  }
  for (unsigned n = 0; n < 32; ++n) {
    for (unsigned next = 0; next < 2; ++next) {
      load_line(column, shared, b + (n * 8 + lane % 4 * 2 + next) * 128);
      for (unsigned half = 0; half < 2; ++half) {
        int& own = sum[n][half * 2 + next];
        own = add_dot(own, rows[half], column);
      }
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
