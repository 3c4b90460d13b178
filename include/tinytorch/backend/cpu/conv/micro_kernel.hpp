// Micro-kernels of convolution on frames (conv/frame.hpp), for outputs and for weight gradients.
//
//   shifted_tile   c[i, q] = sum over k of a[k, i] x[q + shift[k]]
//                  a matrix product whose second matrix is x at shifted addresses
//   shifted_dots   c[i, k] = or += sum over q of dy[i, q] x[q + shift[k]]
//                  dot products of contiguous runs
//
// Both keep kMR by kNRVectors sums in registers, like the micro-kernel of GEMM (gemm/micro_kernel.hpp).
#pragma once

#include <tinytorch/backend/cpu/gemm/micro_kernel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// `a` is a packed panel of kMR numbers per step, of which the first kRows are used.
template <class T, int kRows, int kVectors>
[[gnu::noinline]] void shifted_tile(int64_t depth, const T* a, const T* x, const int64_t* shift, T* c,
                                    int64_t c_row) {
  Simd<T> sum[kRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k)
    rank_1_update<T, ScalarStep>(sum, a + k * kMR, 1, x + shift[k], nullptr);
  store_tile<T>(sum, c, c_row, false, nullptr);
}

template <class T, int kRows>
void shifted_tile(int64_t vectors, int64_t depth, const T* a, const T* x, const int64_t* shift, T* c,
                  int64_t c_row) {
  if (vectors == 1) return shifted_tile<T, kRows, 1>(depth, a, x, shift, c, c_row);
  if (vectors == 2) return shifted_tile<T, kRows, 2>(depth, a, x, shift, c, c_row);
  if constexpr (kNRVectors > 2) {
    if (vectors == 3) return shifted_tile<T, kRows, 3>(depth, a, x, shift, c, c_row);
    shifted_tile<T, kRows, 4>(depth, a, x, shift, c, c_row);
  }
}

// Positions [0, n) of `rows` outputs, rounded up to whole vectors: c has room for these, and x is readable
// there.
template <class T>
void shifted_rows(int64_t rows, int64_t n, int64_t depth, const T* a, const T* x, const int64_t* shift, T* c,
                  int64_t c_row) {
  for (int64_t q = 0; q < n; q += kNR<T>) {
    const int64_t vectors = std::min<int64_t>(kNRVectors, ceil_div(n - q, kLanes<T>));
    // Two tile heights besides kMR: numbers of filters are often powers of two, which leave 2 or 4 rows of 6.
    const auto tile = rows <= 2   ? &shifted_tile<T, 2>
                      : rows <= 4 ? &shifted_tile<T, 4>
                                  : &shifted_tile<T, static_cast<int>(kMR)>;
    tile(vectors, depth, a, x + q, shift, c + q, c_row);
  }
}

// Packs a panel [taps, kWidth] from `count` rows of `all` numbers: of each row the numbers at `taps`, which
// may be all of them.
template <int64_t kWidth, class T>
void pack_taps(T* panel, int64_t count, const T* from, int64_t all, const std::vector<int64_t>& taps) {
  const auto number = static_cast<int64_t>(taps.size());
  if (number == all) return pack_panel<kWidth>(panel, count, all, from, all, 1);
  std::fill_n(panel, number * kWidth, T(0));
  for (int64_t k = 0; k < number; ++k)
    for (int64_t i = 0; i < count; ++i) panel[k * kWidth + i] = from[i * all + taps[static_cast<size_t>(k)]];
}

// Pairwise sums of adjacent lanes: a0 + a1, a2 + a3, ..., then those of b.
template <class T>
Simd<T> add_adjacent_lanes(Simd<T> a, Simd<T> b) {
  return simd_shuffle<T>(a, b, [](int64_t i) { return 2 * i; }) +
         simd_shuffle<T>(a, b, [](int64_t i) { return 2 * i + 1; });
}

// Horizontal sum of each vector, in the first kVectors lanes of the result.
template <class T, int kVectors>
Simd<T> horizontal_sums(const Simd<T> (&v)[kVectors]) {
  static_assert(kVectors == 2 || kVectors == 4);
  Simd<T> sum = add_adjacent_lanes<T>(v[0], v[1]);
  if constexpr (kVectors == 4) sum = add_adjacent_lanes<T>(sum, add_adjacent_lanes<T>(v[2], v[3]));
  for (int64_t lanes = kLanes<T> / kVectors; lanes > 1; lanes /= 2) sum = add_adjacent_lanes<T>(sum, sum);
  return sum;
}

// Bit mask of positions. At positions between outputs dy is 0, but 0 times an infinity of x is NaN, so x is
// masked: `valid` has all bits set at positions of outputs and none elsewhere. Without a mask (kGuarded
// false), x must be finite.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

// c [kRows, kNRVectors] = or += dot products over n positions (whole vectors) of kRows rows of dy, dy_row
// apart, with x at kNRVectors shifts.
template <class T, int kRows, bool kGuarded>
[[gnu::noinline]] void shifted_dots(int64_t n, const T* dy, int64_t dy_row, const T* x, const int64_t* shift,
                                    const Bits<T>* valid, T* c, int64_t c_row, bool accumulate) {
  Simd<T> sum[kRows][kNRVectors] = {};
  const T* tap[kNRVectors];
  TT_UNROLL
  for (int v = 0; v < kNRVectors; ++v) tap[v] = x + shift[v];
  for (int64_t q = 0; q < n; q += kLanes<T>) {
    Simd<T> taps[kNRVectors];
    TT_UNROLL
    for (int v = 0; v < kNRVectors; ++v) {
      taps[v] = simd_load(tap[v] + q);
      if constexpr (kGuarded)
        taps[v] = reinterpret_cast<Simd<T>>(reinterpret_cast<Simd<Bits<T>>>(taps[v]) & simd_load(valid + q));
    }
    TT_UNROLL
    for (int64_t i = 0; i < kRows; ++i) {
      const Simd<T> row = simd_load(dy + i * dy_row + q);
      TT_UNROLL
      for (int v = 0; v < kNRVectors; ++v) sum[i][v] += row * taps[v];
    }
  }
  const FirstLanes<T> lanes(kNRVectors);
  TT_UNROLL
  for (int64_t i = 0; i < kRows; ++i) {
    const Simd<T> sums = horizontal_sums<T>(sum[i]);
    lanes.store(c + i * c_row, accumulate ? lanes.load(c + i * c_row) + sums : sums);
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
