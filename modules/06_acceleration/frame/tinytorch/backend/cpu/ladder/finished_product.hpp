// The sixth step of a fast matrix product: the epilogue is applied while the sums are in the cache.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.6. It is cut
// from the library's header by modules/frames.py.
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

template <class T>
void apply_epilogue(T* tile, int64_t c_row, int64_t m0, int64_t n0, int64_t rows, int64_t cols,
                    const TileEpilogue<T>& epilogue);  // task 6.6
template <class T>
void finished_product(T* c, int64_t c_row, const Matrix<T>& a, const Matrix<T>& b, int64_t M, int64_t N,
                      int64_t K, const TileEpilogue<T>& epilogue);  // task 6.6

}  // namespace tinytorch::inline TT_BUILD::backend::cpu::ladder

#include <tasks/backend/cpu/ladder/finished_product.hpp>
