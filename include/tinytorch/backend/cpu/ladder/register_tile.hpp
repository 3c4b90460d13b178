// The fourth step of a fast matrix product: a tile of c stays in registers for the whole depth.
//
// A sum in memory needs a load and a store for each multiply-add. In registers, a step of the depth takes the
// kMR numbers of a panel of a and the kNR of a panel of b, kNRVectors vectors, for kMR kNRVectors vector
// multiply-adds. So many independent sums also keep the multipliers busy, whose results take four cycles.
// Source: Van Zee and van de Geijn, "BLIS", 2015.
#pragma once

#include <tinytorch/backend/cpu/gemm/micro_kernel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu::ladder {

// c [rows, cols], whose row m begins at c + m c_row, = or += (if `accumulate`) a panel of a times a panel of
// b (panels.hpp), of `depth` steps. 1 <= rows <= kMR, 1 <= cols <= kNR<T>. T is float or double. Each sum
// runs over the depth in order; with `accumulate`, what was in c is added to the complete sum. Nothing is
// read behind the panels, and nothing of c outside of [rows, cols] is read or written; c need not be aligned.
template <class T>
void tile_product(T* c, int64_t c_row, const T* a, const T* b, int64_t depth, int64_t rows, int64_t cols,
                  bool accumulate) {
  Simd<T> sum[kMR][kNRVectors] = {};
  for (int64_t k = 0; k < depth; ++k, a += kMR, b += kNR<T>) {
    Simd<T> row[kNRVectors];
    TT_UNROLL
    for (int v = 0; v < kNRVectors; ++v) row[v] = simd_load(b + v * kLanes<T>);
    TT_UNROLL
    for (int r = 0; r < kMR; ++r) {
      const Simd<T> x = simd_broadcast(a[r]);
      TT_UNROLL
      for (int v = 0; v < kNRVectors; ++v) sum[r][v] += x * row[v];
    }
  }
  T tile[kMR][kNR<T>];
  for (int r = 0; r < kMR; ++r)
    for (int v = 0; v < kNRVectors; ++v) simd_store(tile[r] + v * kLanes<T>, sum[r][v]);
  for (int64_t r = 0; r < rows; ++r) {
    T* const to = c + r * c_row;
    for (int64_t n = 0; n < cols; ++n) to[n] = accumulate ? to[n] + tile[r][n] : tile[r][n];
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu::ladder
