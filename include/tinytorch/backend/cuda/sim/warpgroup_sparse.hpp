// Emulation of warpgroup_sparse.cuh (wgmma with a sparse operand A): each lane expands its two rows and
// reads its columns of b from shared memory.
#pragma once

#include <tinytorch/backend/cuda/sim/tensor_core_sparse.hpp>
#include <tinytorch/backend/cuda/sim/warpgroup.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

[[gnu::no_sanitize_thread]] inline float dot_of_32(const float (&x)[32], const float (&y)[32], float sum) {
  for (int k = 0; k < 32; ++k) sum += x[k] * y[k];
  return sum;
}
// sum [64, 8 kCount] += a [64, 32] b [8 kCount, 32]^T for this lane's rows and columns.
template <class T, int kCount>
void multiply_sparse(float (&sum)[kCount][4], const unsigned (&a)[4], unsigned metadata, int selector,
                     const unsigned char* shared, unsigned address, Loc where = Loc::current()) {
  const auto lane = static_cast<unsigned>(lane_number());
  float rows[2][32], column[32];
  sparse_rows_of<T>(rows, a, metadata, selector, "wgmma.sp", where);
  for (unsigned n = 0; n < kCount; ++n) {
    for (unsigned next = 0; next < 2; ++next) {
      const unsigned at = address + (n * 8 + lane % 4 * 2 + next) * 128;
      for (unsigned piece = 0; piece < 4; ++piece) {
        T values[8];
        const uint4 bytes = *reinterpret_cast<const uint4*>(shared + swizzled(at + piece * 16));
        __builtin_memcpy(&values[0].bits, &bytes, sizeof(bytes));
        for (unsigned k = 0; k < 8; ++k) column[piece * 8 + k] = static_cast<float>(values[k]);
      }
      for (int half = 0; half < 2; ++half) {
        float& own = sum[n][half * 2 + static_cast<int>(next)];
        own = dot_of_32(rows[half], column, own);
      }
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
