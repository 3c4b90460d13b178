// The sixth step of a fast matrix product: the epilogue is applied while the sums are in the cache.
//
//   c = relu(a b + bias + residual): finished_product(c, N, a, b, M, N, K, epilogue);
//
// A second pass reads and writes all of c from memory again: 2 M N numbers. A tile that has just been
// completed is in the L1 cache.
#pragma once

#include <tinytorch/backend/cpu/ladder/five_loops.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu::ladder {

// The epilogue is fn(sum + bias + residual), in this order. bias has N numbers, or M if by_rows; null: none.
// residual [M, N], whose row m begins at residual + m residual_row; null: none.
template <class T>
struct TileEpilogue {
  const T* bias = nullptr;
  bool by_rows = false;
  const T* residual = nullptr;
  int64_t residual_row = 0;
  T (*fn)(T) = nullptr;
};
template <class T>
using Finish [[deprecated("since 0.1.0: use TileEpilogue; Finish ends with 0.2.0")]] = TileEpilogue<T>;

// Applies the epilogue to the complete sums of the tile [rows, cols], whose first element, at `tile`, is
// c[m0, n0].
template <class T>
void apply_epilogue(T* tile, int64_t c_row, int64_t m0, int64_t n0, int64_t rows, int64_t cols,
                    const TileEpilogue<T>& epilogue) {
  for (int64_t r = 0; r < rows; ++r) {
    T* const to = tile + r * c_row;
    const int64_t m = m0 + r;
    for (int64_t i = 0; i < cols; ++i) {
      const int64_t n = n0 + i;
      T x = to[i];
      if (epilogue.bias) x += epilogue.bias[epilogue.by_rows ? m : n];
      if (epilogue.residual) x += epilogue.residual[m * epilogue.residual_row + n];
      to[i] = epilogue.fn ? epilogue.fn(x) : x;
    }
  }
}

// c [M, N] = epilogue(a [M, K] b [K, N]) on this thread, where row m of c begins at c + m c_row: the loops of
// product_of_rows, with apply_epilogue once for each tile, after the last block of the depth and before the
// next tile begins. With K = 0 the sums are 0, and get the epilogue, too.
template <class T>
void finished_product(T* c, int64_t c_row, const Matrix<T>& a, const Matrix<T>& b, int64_t M, int64_t N,
                      int64_t K, const TileEpilogue<T>& epilogue) {
  if (M <= 0 || N <= 0) return;
  if (K <= 0) {
    for (int64_t m = 0; m < M; ++m) std::fill_n(c + m * c_row, N, T(0));
    apply_epilogue(c, c_row, 0, 0, M, N, epilogue);
    return;
  }
  const int64_t depth = std::min(K, kDepthOfBlock);
  std::vector<T> a_panels(static_cast<size_t>(panel_elements(std::min(M, kRowsOfBlock), kMR, depth)));
  std::vector<T> b_panels(static_cast<size_t>(panel_elements(std::min(N, kColsOfBlock), kNR<T>, depth)));
  for (int64_t n0 = 0; n0 < N; n0 += kColsOfBlock) {
    const int64_t n_count = std::min(kColsOfBlock, N - n0);
    for (int64_t k0 = 0; k0 < K; k0 += kDepthOfBlock) {
      const int64_t k_count = std::min(kDepthOfBlock, K - k0);
      const bool complete = k0 + k_count == K;
      pack_b<T>(b_panels.data(), {b.data + k0 * b.row + n0 * b.col, b.row, b.col}, k_count, n_count);
      for (int64_t m0 = 0; m0 < M; m0 += kRowsOfBlock) {
        const int64_t m_count = std::min(kRowsOfBlock, M - m0);
        pack_a<T>(a_panels.data(), {a.data + m0 * a.row + k0 * a.col, a.row, a.col}, m_count, k_count);
        for (int64_t n = 0; n < n_count; n += kNR<T>) {
          for (int64_t m = 0; m < m_count; m += kMR) {
            const int64_t rows = std::min(kMR, m_count - m), cols = std::min(kNR<T>, n_count - n);
            T* const tile = c + (m0 + m) * c_row + n0 + n;
            tile_product(tile, c_row, a_panels.data() + m * k_count, b_panels.data() + n * k_count, k_count,
                         rows, cols, k0 > 0);
            if (complete) apply_epilogue(tile, c_row, m0 + m, n0 + n, rows, cols, epilogue);
          }
        }
      }
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu::ladder
