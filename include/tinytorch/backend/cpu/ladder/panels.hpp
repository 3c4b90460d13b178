// The third step of a fast matrix product: blocks are copied to panels, in the order in which they are read.
//
// A block of a large matrix has rows that are far apart, so it needs a page of addresses for each row, and
// its lines may fall into the same sets of the cache. A copy costs M K + K N moves for 2 M N K operations. In
// a panel the numbers of one step of the depth are neighbours, whatever the strides of the matrix were, and
// partial panels are filled up with zeros, so that the inner loops have no remainders.
#pragma once

#include <tinytorch/backend/cpu/gemm/micro_kernel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu::ladder {

// The numbers that `count` rows (or columns), in whole panels of `width`, need for a depth.
inline int64_t panel_elements(int64_t count, int64_t width, int64_t depth) {
  return ceil_div(count, width) * width * depth;
}

// Writes the block a [rows, depth] to `to` as panels of kMR rows. Panel p has rows p kMR to p kMR + kMR - 1:
// for each k the kMR numbers of column k, one after the other, 0 for rows that the block does not have.
// Element [r, k] of the block is a.data[r * a.row + k * a.col].
template <class T>
void pack_a(T* to, const Matrix<T>& a, int64_t rows, int64_t depth) {
  for (int64_t r0 = 0; r0 < rows; r0 += kMR) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t r = r0; r < r0 + kMR; ++r) *to++ = r < rows ? a.data[r * a.row + k * a.col] : T(0);
    }
  }
}

// Writes the block b [depth, cols] to `to` as panels of kNR<T> columns. Panel p has columns p kNR and the
// following: for each k the kNR numbers of row k, one after the other, 0 for columns that the block does not
// have. Element [k, n] of the block is b.data[k * b.row + n * b.col].
template <class T>
void pack_b(T* to, const Matrix<T>& b, int64_t depth, int64_t cols) {
  for (int64_t n0 = 0; n0 < cols; n0 += kNR<T>) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t n = n0; n < n0 + kNR<T>; ++n) *to++ = n < cols ? b.data[k * b.row + n * b.col] : T(0);
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu::ladder
