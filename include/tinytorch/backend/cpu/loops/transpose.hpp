// Matrix transposition in tiles: copies a matrix with contiguous columns to one with contiguous rows. Without
// tiles, each element would be in another cache line of one of the two.
#pragma once

#include <algorithm>
#include <cstring>
#include <tinytorch/core/simd_transpose.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Side of a tile. Elements of less than 32 bits are moved as 32-bit words.
template <class T>
inline constexpr int64_t kTileLanes = sizeof(T) >= 4 ? kLanes<T> : kLanes<int32_t>;

// Transposes a full tile in registers.
template <class T>
void copy_full_tile(T* to, int64_t to_row, const T* from, int64_t from_col) {
  constexpr int64_t kN = kTileLanes<T>;
  if constexpr (sizeof(T) >= 4) {
    Simd<T> v[kN];
    for (int64_t c = 0; c < kN; ++c) v[c] = simd_load(from + c * from_col);
    simd_transpose<T>(v);
    for (int64_t r = 0; r < kN; ++r) simd_store(to + r * to_row, v[r]);
  } else {
    using Bits = std::conditional_t<sizeof(T) == 1, int8_t, int16_t>;
    typedef Bits Short __attribute__((vector_size(kN * sizeof(T))));
    Simd<int32_t> v[kN];
    for (int64_t c = 0; c < kN; ++c) {
      Short column;
      std::memcpy(&column, from + c * from_col, sizeof(column));
      v[c] = __builtin_convertvector(column, Simd<int32_t>);
    }
    simd_transpose<int32_t>(v);
    for (int64_t r = 0; r < kN; ++r) {
      const Short row = __builtin_convertvector(v[r], Short);
      std::memcpy(static_cast<void*>(to + r * to_row), &row, sizeof(row));
    }
  }
}

// Transposes one tile: to [height, width], with row stride to_row, from columns that are from_col apart.
template <class T>
void copy_tile(T* to, int64_t to_row, const T* from, int64_t from_col, int64_t height, int64_t width) {
  if (height == kTileLanes<T> && width == kTileLanes<T>) return copy_full_tile(to, to_row, from, from_col);
  for (int64_t c = 0; c < width; ++c)
    for (int64_t r = 0; r < height; ++r)
      std::memcpy(to + r * to_row + c, from + c * from_col + r, sizeof(T));  // T may stand for another type
}

// to [rows, cols] = from, in tiles: to[r * to_row + c] = from[c * from_col + r].
template <class T>
void copy_transposed(T* to, int64_t to_row, const T* from, int64_t from_col, int64_t rows, int64_t cols) {
  constexpr int64_t kTile = kTileLanes<T>;
  for (int64_t r = 0; r < rows; r += kTile) {
    for (int64_t c = 0; c < cols; c += kTile) {
      copy_tile(to + r * to_row + c, to_row, from + c * from_col + r, from_col, std::min(kTile, rows - r),
                std::min(kTile, cols - c));
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
