// The fifth step of a fast matrix product: five loops around the register tile, and threads.
//
// From the outside: columns that a level of the cache holds, the depth, rows, and then the tiles of a block,
// columns before rows, so that a panel of b stays in the L1 cache while all panels of a pass. Threads share
// the rows of c. Each sum belongs to one thread and runs over the depth in order, so the bits of the result
// do not depend on the number of threads, which they would if threads shared the depth. Source: Goto and van
// de Geijn, "Anatomy of high-performance matrix multiplication", 2008.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/ladder/panels.hpp>
#include <tinytorch/backend/cpu/ladder/register_tile.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu::ladder {

// Blocks of a: kRowsOfBlock x kDepthOfBlock, in the L2 cache. Blocks of b: kDepthOfBlock x kColsOfBlock.
inline constexpr int64_t kRowsOfBlock = 96, kDepthOfBlock = 256, kColsOfBlock = 3072;

struct RowRange {
  int64_t begin, end;
};

// The rows of c that thread number `thread` of `threads` computes. Ranges are in order, cover [0, M) once,
// and begin at multiples of kMR, so that no tile is shared; sizes differ by at most one tile of kMR rows.
// With more threads than tiles some ranges are empty.
inline RowRange rows_of_thread(int64_t M, int64_t threads, int64_t thread) {
  const int64_t tiles = ceil_div(M, kMR);
  return {std::min(M, tiles * thread / threads * kMR), std::min(M, tiles * (thread + 1) / threads * kMR)};
}

// Rows `range` of c [M, N] = a [M, K] b [K, N], where row m of c begins at c + m c_row. For each kColsOfBlock
// columns and each kDepthOfBlock of the depth: pack_b; then for each kRowsOfBlock rows of the range: pack_a;
// then tile_product for each panel of b and each panel of a. The first block of the depth replaces c, the
// others are added. With K = 0 the rows become 0. A block is packed once, outside of the loops over tiles.
template <class T>
void product_of_rows(T* c, int64_t c_row, const Matrix<T>& a, const Matrix<T>& b, int64_t N, int64_t K,
                     RowRange range) {
  const int64_t rows = std::min(range.end - range.begin, kRowsOfBlock), depth = std::min(K, kDepthOfBlock);
  if (rows <= 0 || N <= 0) return;
  if (K <= 0) {
    for (int64_t m = range.begin; m < range.end; ++m) std::fill_n(c + m * c_row, N, T(0));
    return;
  }
  std::vector<T> a_panels(static_cast<size_t>(panel_elements(rows, kMR, depth)));
  std::vector<T> b_panels(static_cast<size_t>(panel_elements(std::min(N, kColsOfBlock), kNR<T>, depth)));
  for (int64_t n0 = 0; n0 < N; n0 += kColsOfBlock) {
    const int64_t n_count = std::min(kColsOfBlock, N - n0);
    for (int64_t k0 = 0; k0 < K; k0 += kDepthOfBlock) {
      const int64_t k_count = std::min(kDepthOfBlock, K - k0);
      pack_b<T>(b_panels.data(), {b.data + k0 * b.row + n0 * b.col, b.row, b.col}, k_count, n_count);
      for (int64_t m0 = range.begin; m0 < range.end; m0 += kRowsOfBlock) {
        const int64_t m_count = std::min(kRowsOfBlock, range.end - m0);
        pack_a<T>(a_panels.data(), {a.data + m0 * a.row + k0 * a.col, a.row, a.col}, m_count, k_count);
        for (int64_t n = 0; n < n_count; n += kNR<T>) {
          for (int64_t m = 0; m < m_count; m += kMR) {
            tile_product(c + (m0 + m) * c_row + n0 + n, c_row, a_panels.data() + m * k_count,
                         b_panels.data() + n * k_count, k_count, std::min(kMR, m_count - m),
                         std::min(kNR<T>, n_count - n), k0 > 0);
          }
        }
      }
    }
  }
}

// c [M, N] = a [M, K] b [K, N], shared by `threads` >= 1 threads.
template <class T>
void product(T* c, int64_t c_row, const Matrix<T>& a, const Matrix<T>& b, int64_t M, int64_t N, int64_t K,
             int64_t threads) {
  parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      product_of_rows(c, c_row, a, b, N, K, rows_of_thread(M, threads, t));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu::ladder
