// Copies of a matrix whose columns lie contiguously to one whose rows do, tile by tile: walking the rows of either
// would touch a new cache line of the other at every element.
#pragma once

#include <algorithm>
#include <tinytorch/core/simd_transpose.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// One tile: to [height, width] from columns that lie contiguously.
template <class T>
void copy_tile(T* to, int64_t to_row, const T* from, int64_t from_col, int64_t height, int64_t width) {
  constexpr int64_t kN = kLanes<T>;
  if constexpr (sizeof(T) >=
                4) {  // shorter values would need a vector's length of registers, of which there are 16 or 32
    if (height == kN && width == kN) {
      Simd<T> v[kN];
      for (int64_t c = 0; c < kN; ++c) v[c] = simd_load(from + c * from_col);
      simd_transpose<T>(v);
      for (int64_t r = 0; r < kN; ++r) simd_store(to + r * to_row, v[r]);
      return;
    }
  }
  for (int64_t c = 0; c < width; ++c)
    for (int64_t r = 0; r < height; ++r) to[r * to_row + c] = from[c * from_col + r];
}

// to [rows, cols]
template <class T>
void copy_transposed(T* to, int64_t to_row, const T* from, int64_t from_col, int64_t rows, int64_t cols) {
  constexpr int64_t kTile = sizeof(T) >= 4 ? kLanes<T> : 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t r = 0; r < rows; r += kTile) {
    for (int64_t c = 0; c < cols; c += kTile) {
      copy_tile(to + r * to_row + c, to_row, from + c * from_col + r, from_col, std::min(kTile, rows - r),
                std::min(kTile, cols - c));
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
