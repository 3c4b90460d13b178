// Emulation of tensor_core_sparse.cuh (mma.sp): each lane expands its two rows of the sparse operand and
// computes its own elements of the result.
#pragma once

#include <tinytorch/backend/cuda/sim/tensor_core.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

// Rows g and g + 8 of a sparse a [16, 32], with its zeros, for lane 4 g + t. Lanes 4 g + 2 selector and the
// next contribute the metadata of these rows: groups 0 to 3, then 4 to 7; row g in the low half.
template <class T>
[[gnu::no_sanitize_thread]] void sparse_rows_of(float (&rows)[2][32], const unsigned (&a)[4],
                                                unsigned metadata, int selector, const char* what,
                                                Loc where) {
  float kept[2][16];
  rows_of<T>(kept, a, what, where);
  const WarpExchange& all = exchange_in_warp(0xffffffffu, &metadata, sizeof(metadata), false, what, where);
  const int lane = lane_number();
  for (int half = 0; half < 2; ++half) {
    for (int k = 0; k < 32; ++k) rows[half][k] = 0;
    for (int group = 0; group < 8; ++group) {
      unsigned word;
      __builtin_memcpy(&word, all.values[lane / 4 * 4 + 2 * selector + group / 4], sizeof(word));
      const unsigned places = word >> (16 * half + group % 4 * 4) & 15u;
      if ((places & 3) >= places >> 2) stop_at_metadata(places, lane / 4 + 8 * half, group, what, where);
      rows[half][group * 4 + static_cast<int>(places & 3)] = kept[half][group * 2];
      rows[half][group * 4 + static_cast<int>(places >> 2)] = kept[half][group * 2 + 1];
    }
  }
}
// sum [16, 8] += a [16, 32] b [32, 8]. Lane 4 g + t contributes elements 2 t, 2 t + 1, and these plus 8, 16
// and 24, of column g of b.
template <class T>
[[gnu::no_sanitize_thread]] void multiply_add_sparse(float (&sum)[4], const unsigned (&a)[4],
                                                     const unsigned (&b)[4], unsigned metadata, int selector,
                                                     Loc where = Loc::current()) {
  float rows[2][32], columns[2][2][16];
  const int lane = lane_number();
  sparse_rows_of<T>(rows, a, metadata, selector, "mma.sp", where);
  const WarpExchange& b_lanes = exchange_in_warp(0xffffffffu, b, sizeof(b), false, "mma.sp", where);
  for (int t = 0; t < 4; ++t) {
    for (int next = 0; next < 2; ++next) {
      const unsigned char* const given = b_lanes.values[(lane % 4 * 2 + next) * 4 + t];
      for (int half = 0; half < 2; ++half)
        unpack<T>(columns[next][half], t, given + half * 8, given + half * 8 + 4);
    }
  }
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 32; ++k) sum[i] += rows[i / 2][k] * columns[i % 2][k / 16][k % 16];
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
