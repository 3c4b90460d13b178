// The fifth step of a fast matrix product: five loops around the register tile, and threads.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.5. It is cut
// from the library's header by modules/frames.py.
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

inline RowRange rows_of_thread(int64_t M, int64_t threads, int64_t thread);  // task 6.5
template <class T>
void product_of_rows(T* c, int64_t c_row, const Matrix<T>& a, const Matrix<T>& b, int64_t N, int64_t K,
                     RowRange range);  // task 6.5

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

#include <tasks/backend/cpu/ladder/five_loops.hpp>
