// Embedding on the CPU: rows of a table picked by index, and the gradient that adds rows back.
//
// Task 4.4: copy_rows, add_rows, find_outside. The given parts of this header are in
// modules/04_transformer/frame/tinytorch/backend/cpu/embedding.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Row i of out [n, C], which is contiguous, becomes row index[i] of the table. The table's element (row, c)
// is weight[row * row_stride + c * col_stride]: it may be transposed, or have gaps.
template <class S>
void copy_rows(S* out, const S* weight, int64_t row_stride, int64_t col_stride, Indices index, int64_t C) {
  for (size_t i = 0; i < index.size(); ++i) {
    for (int64_t c = 0; c < C; ++c) *out++ = weight[index[i] * row_stride + c * col_stride];
  }
}

// dw [V, C] = 0, then dw[index[i]] += dy[i] for every row i of dy [n, C]; both contiguous. A token that
// occurs twice gets both rows: the gradient of a copy is a sum. dw starts as rubbish.
template <class T>
void add_rows(T* dw, const T* dy, Indices index, int64_t V, int64_t C) {
  std::fill(dw, dw + V * C, T(0));
  for (size_t i = 0; i < index.size(); ++i) {
    T* const row = dw + index[i] * C;
    for (int64_t c = 0; c < C; ++c) row[c] += *dy++;
  }
}

// The place in the list of the first index outside [0, V), or -1 when there is none.
inline int64_t find_outside(Indices index, int64_t V) {
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] < 0 || index[i] >= V) return static_cast<int64_t>(i);
  }
  return -1;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
