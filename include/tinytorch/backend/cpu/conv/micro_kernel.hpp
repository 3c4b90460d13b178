// The innermost parts of a convolution, on frames (conv/frame.hpp): a tile of outputs, and a tile of weight
// gradients.
//
//   shifted_tile   c[i, q] = sum over k of a[k, i] x[q + shift[k]]: a matrix product whose second matrix is
//   x, shifted shifted_dots   c[i, k] = or += sum over q of dy[i, q] x[q + shift[k]]: its products run along
//   memory on both sides
// Both have the form of the matrix product's tile (gemm/micro_kernel.hpp): kTileRows by kTileVectors sums in
// registers.
#pragma once

#include <tinytorch/backend/cpu/gemm/micro_kernel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// `a` is a panel of kTileRows numbers a step, of which the first kRows count.
template <class T, int kRows, int kVectors>
[[gnu::noinline]] void shifted_tile(int64_t depth, const T* a, const T* x, const int64_t* shift, T* c,
                                    int64_t c_row) {
  Simd<T> sum[kRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k) tile_step<T, Singles>(sum, a + k * kTileRows, 1, x + shift[k], nullptr);
  tile_store<T>(sum, c, c_row, false, nullptr);
}

template <class T, int kRows>
void shifted_tile(int64_t vectors, int64_t depth, const T* a, const T* x, const int64_t* shift, T* c,
                  int64_t c_row) {
  if (vectors == 1) return shifted_tile<T, kRows, 1>(depth, a, x, shift, c, c_row);
  if (vectors == 2) return shifted_tile<T, kRows, 2>(depth, a, x, shift, c, c_row);
  if constexpr (kTileVectors > 2) {
    if (vectors == 3) return shifted_tile<T, kRows, 3>(depth, a, x, shift, c, c_row);
    shifted_tile<T, kRows, 4>(depth, a, x, shift, c, c_row);
  }
}

// Positions [0, n) of `rows` outputs, rounded up to vectors: c has room for those, and x can be read there.
template <class T>
void shifted_rows(int64_t rows, int64_t n, int64_t depth, const T* a, const T* x, const int64_t* shift, T* c,
                  int64_t c_row) {
  for (int64_t q = 0; q < n; q += kTileCols<T>) {
    const int64_t vectors = std::min<int64_t>(kTileVectors, ceil_div(n - q, kLanes<T>));
    // Two heights besides the full one: powers of two leave 2 or 4 rows of a tile of 6.
    const auto tile = rows <= 2   ? &shifted_tile<T, 2>
                      : rows <= 4 ? &shifted_tile<T, 4>
                                  : &shifted_tile<T, static_cast<int>(kTileRows)>;
    tile(vectors, depth, a, x + q, shift, c + q, c_row);
  }
}

// A panel [taps, kWidth] of `count` rows that are `all` numbers long: of each the numbers in `taps`, which
// may be all.
template <int64_t kWidth, class T>
void pack_taps(T* panel, int64_t count, const T* from, int64_t all, const std::vector<int64_t>& taps) {
  const auto number = static_cast<int64_t>(taps.size());
  if (number == all) return pack_panel<kWidth>(panel, count, all, from, all, 1);
  std::fill_n(panel, number * kWidth, T(0));
  for (int64_t k = 0; k < number; ++k)
    for (int64_t i = 0; i < count; ++i) panel[k * kWidth + i] = from[i * all + taps[static_cast<size_t>(k)]];
}

// a0 + a1, a2 + a3, ..., then those of b.
template <class T>
Simd<T> fold_neighbours(Simd<T> a, Simd<T> b) {
  return simd_shuffle<T>(a, b, [](int64_t i) { return 2 * i; }) +
         simd_shuffle<T>(a, b, [](int64_t i) { return 2 * i + 1; });
}

// The sum of each vector's lanes, in the result's first lanes.
template <class T, int kVectors>
Simd<T> fold_lanes(const Simd<T> (&v)[kVectors]) {
  static_assert(kVectors == 2 || kVectors == 4);
  Simd<T> sum = fold_neighbours<T>(v[0], v[1]);
  if constexpr (kVectors == 4) sum = fold_neighbours<T>(sum, fold_neighbours<T>(v[2], v[3]));
  for (int64_t lanes = kLanes<T> / kVectors; lanes > 1; lanes /= 2) sum = fold_neighbours<T>(sum, sum);
  return sum;
}

// What is not a position of an output, where dy is 0, must not meet an infinity of x: 0 times that is NaN.
// `valid` has all bits set at positions of outputs and none elsewhere; without it x is taken to be finite.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

// n positions (whole vectors), kRows rows of dy that are dy_row apart, kTileVectors shifts; c [kRows,
// kTileVectors].
template <class T, int kRows, bool kGuarded>
[[gnu::noinline]] void shifted_dots(int64_t n, const T* dy, int64_t dy_row, const T* x, const int64_t* shift,
                                    const Bits<T>* valid, T* c, int64_t c_row, bool accumulate) {
  Simd<T> sum[kRows][kTileVectors] = {};
  const T* tap[kTileVectors];
  TT_UNROLL
  for (int v = 0; v < kTileVectors; ++v) tap[v] = x + shift[v];
  for (int64_t q = 0; q < n; q += kLanes<T>) {
    Simd<T> seen[kTileVectors];
    TT_UNROLL
    for (int v = 0; v < kTileVectors; ++v) {
      seen[v] = simd_load(tap[v] + q);
      if constexpr (kGuarded)
        seen[v] = reinterpret_cast<Simd<T>>(reinterpret_cast<Simd<Bits<T>>>(seen[v]) & simd_load(valid + q));
    }
    TT_UNROLL
    for (int64_t i = 0; i < kRows; ++i) {
      const Simd<T> row = simd_load(dy + i * dy_row + q);
      TT_UNROLL
      for (int v = 0; v < kTileVectors; ++v) sum[i][v] += row * seen[v];
    }
  }
  const FirstLanes<T> lanes(kTileVectors);
  TT_UNROLL
  for (int64_t i = 0; i < kRows; ++i) {
    const Simd<T> sums = fold_lanes<T>(sum[i]);
    lanes.store(c + i * c_row, accumulate ? lanes.load(c + i * c_row) + sums : sums);
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
