// Emulation of tensor_core.cuh (ldmatrix and mma): all lanes of the warp exchange their operands, and each
// lane gets the same elements as on the hardware.
#pragma once

#include <tinytorch/backend/cuda/sim/functions.hpp>
#include <tinytorch/core/dtype.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

// Each lane contributes its row of 16 bytes and receives its elements of the four matrices.
[[gnu::no_sanitize_thread]] inline void exchange_rows(unsigned (&out)[4], const uint4& row, bool turned,
                                                      Loc where) {
  const WarpExchange& all = exchange_in_warp(0xffffffffu, &row, sizeof(row), false, "ldmatrix", where);
  const int lane = lane_number();
  for (int matrix = 0; matrix < 4; ++matrix) {
    const auto* const rows = &all.values[matrix * 8];
    uint16_t pair[2];
    for (int k = 0; k < 2; ++k) {
      const int from = turned ? lane % 4 * 2 + k : lane / 4, column = turned ? lane / 4 : lane % 4 * 2 + k;
      __builtin_memcpy(&pair[k], rows[from] + column * 2, 2);
    }
    out[matrix] = pair[0] | static_cast<unsigned>(pair[1]) << 16;
  }
}
inline void load_matrices(unsigned (&out)[4], const unsigned char* row, Loc where = Loc::current()) {
  const uint4 mine = *reinterpret_cast<const uint4*>(row);  // checked as this lane's access
  exchange_rows(out, mine, false, where);
}
inline void load_transposed(unsigned (&out)[4], const unsigned char* row, Loc where = Loc::current()) {
  const uint4 mine = *reinterpret_cast<const uint4*>(row);  // checked as this lane's access
  exchange_rows(out, mine, true, where);
}

// Lane l passes elements l % 4 * 2 and the next of row l / 4 of a matrix, and receives those of the
// transposed one.
[[gnu::no_sanitize_thread]] inline unsigned transpose_matrix(unsigned word, Loc where = Loc::current()) {
  const WarpExchange& all = exchange_in_warp(0xffffffffu, &word, sizeof(word), false, "movmatrix", where);
  const int lane = lane_number(), column = lane / 4;
  uint16_t pair[2];
  for (int k = 0; k < 2; ++k) {
    const int row = lane % 4 * 2 + k;
    __builtin_memcpy(&pair[k], all.values[row * 4 + column / 2] + column % 2 * 2, 2);
  }
  return pair[0] | static_cast<unsigned>(pair[1]) << 16;
}

// Converts elements 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of a line of 16, which one lane contributes.
template <class T>
[[gnu::no_sanitize_thread]] void unpack(float (&line)[16], int t, const unsigned char* low,
                                        const unsigned char* high) {
  T pairs[2][2];
  __builtin_memcpy(pairs[0], low, 4);
  __builtin_memcpy(pairs[1], high, 4);
  for (int k = 0; k < 4; ++k) line[t * 2 + k / 2 * 8 + k % 2] = static_cast<float>(pairs[k / 2][k % 2]);
}
// Rows g and g + 8 of a [16, 16], for lane 4 g + t. Each lane contributes elements 2 t, 2 t + 1, 2 t + 8 and
// 2 t + 9 of row g (in a[0], a[2]) and of row g + 8 (in a[1], a[3]).
template <class T>
[[gnu::no_sanitize_thread]] void rows_of(float (&rows)[2][16], const unsigned (&a)[4], const char* what,
                                         Loc where) {
  const WarpExchange& all = exchange_in_warp(0xffffffffu, a, sizeof(a), false, what, where);
  for (int t = 0; t < 4; ++t) {
    const unsigned char* const given = all.values[lane_number() / 4 * 4 + t];
    for (int half = 0; half < 2; ++half) unpack<T>(rows[half], t, given + half * 4, given + half * 4 + 8);
  }
}
// sum [16, 8] += a [16, 16] b [16, 8]. Lane 4 g + t contributes the same elements of column g of b (in b0,
// b1).
template <class T>
[[gnu::no_sanitize_thread]] void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                              unsigned b1, Loc where = Loc::current()) {
  float rows[2][16], columns[2][16];
  const int lane = lane_number();
  rows_of<T>(rows, a, "mma", where);
  const unsigned mine[2] = {b0, b1};
  const WarpExchange& b_lanes = exchange_in_warp(0xffffffffu, mine, sizeof(mine), false, "mma", where);
  for (int t = 0; t < 4; ++t) {
    for (int next = 0; next < 2; ++next) {
      const unsigned char* const given = b_lanes.values[(lane % 4 * 2 + next) * 4 + t];
      unpack<T>(columns[next], t, given, given + 4);
    }
  }
  for (int half = 0; half < 2; ++half) {
    for (int next = 0; next < 2; ++next) {
      for (int k = 0; k < 16; ++k) sum[half * 2 + next] += rows[half][k] * columns[next][k];
    }
  }
}

// Rows g and g + 8 of a [16, 32] of bytes, for lane 4 g + t. Each lane contributes bytes 4 t to 4 t + 3 and
// 16
// + 4 t to 16 + 4 t + 3 of row g (in a[0], a[2]) and of row g + 8 (in a[1], a[3]).
[[gnu::no_sanitize_thread]] inline void byte_rows_of(int8_t (&rows)[2][32], const unsigned (&a)[4],
                                                     Loc where) {
  const WarpExchange& all = exchange_in_warp(0xffffffffu, a, sizeof(a), false, "mma", where);
  for (int t = 0; t < 4; ++t) {
    const unsigned char* const given = all.values[lane_number() / 4 * 4 + t];
    for (int i = 0; i < 4; ++i) __builtin_memcpy(&rows[i % 2][i / 2 * 16 + t * 4], given + i * 4, 4);
  }
}
// sum + the dot product of two lines of signed bytes; it wraps at 32 bits.
[[gnu::no_sanitize_thread]] inline int add_dot(int sum, const int8_t (&x)[32], const int8_t (&y)[32]) {
  int dot = 0;
  for (int k = 0; k < 32; ++k) dot += x[k] * y[k];
  return static_cast<int>(static_cast<unsigned>(sum) + static_cast<unsigned>(dot));
}
// sum [16, 8] += a [16, 32] b [32, 8] in integers. Lane 4 g + t contributes the same bytes of column g of b
// (in b0, b1).
[[gnu::no_sanitize_thread]] inline void multiply_add_bytes(int (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                                           unsigned b1, Loc where = Loc::current()) {
  int8_t rows[2][32], columns[2][32];
  const int lane = lane_number();
  byte_rows_of(rows, a, where);
  const unsigned mine[2] = {b0, b1};
  const WarpExchange& b_lanes = exchange_in_warp(0xffffffffu, mine, sizeof(mine), false, "mma", where);
  for (int next = 0; next < 2; ++next) {
    for (int t = 0; t < 4; ++t) {
      const unsigned char* const given = b_lanes.values[(lane % 4 * 2 + next) * 4 + t];
      for (int half = 0; half < 2; ++half) {
        __builtin_memcpy(&columns[next][half * 16 + t * 4], given + half * 4, 4);
      }
    }
  }
  for (int i = 0; i < 4; ++i) sum[i] = add_dot(sum[i], rows[i / 2], columns[i % 2]);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
