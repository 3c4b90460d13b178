// Embedding on the CPU: rows of a table picked by index, and the gradient that adds rows back.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [..., C] = weight[index], weight [V, C], index i64 [...]; out is contiguous. Indices are in [0, V): see
// first_outside.
TT_API void embedding(const View& out, const View& weight, const View& index);
// dw [V, C] = sum of the rows of dy [..., C] with that index; rows never named are zero.
TT_API void embedding_grad(const View& dw, const View& dy, const View& index);
// Position (row-major) of the first index outside [0, V), or -1.
TT_API int64_t first_outside(const View& index, int64_t V);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <span>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

using Indices = std::span<const int64_t>;

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

// --- from views to arrays: ContiguousInput and ContiguousOutput copy what is strided, or has 16 bits ---

TT_API void embedding(const View& out, const View& weight, const View& index) {
  if (out.numel() == 0) return;
  const ContiguousInput<int64_t> rows(index);
  dispatch(weight.dtype, [&]<class S>(S*) {
    copy_rows(out.as<S>(), weight.as<const S>(), weight.strides[0], weight.strides[1],
              Indices(rows.data(), static_cast<size_t>(index.numel())), weight.shape[1]);
  });
}

TT_API void embedding_grad(const View& dw, const View& dy, const View& index) {
  if (dw.numel() == 0) return;
  const ContiguousInput<int64_t> rows(index);
  dispatch_floating(dw.dtype, [&]<class T>(T*) {  // 16-bit gradients are added up in f32
    const ContiguousInput<T> in(dy);
    ContiguousOutput<T> sum(dw);
    add_rows(sum.data(), in.data(), Indices(rows.data(), static_cast<size_t>(index.numel())), dw.shape[0],
             dw.shape[1]);
    sum.write_back();
  });
}

TT_API int64_t first_outside(const View& index, int64_t V) {
  if (index.numel() == 0) return -1;
  const ContiguousInput<int64_t> rows(index);
  return find_outside(Indices(rows.data(), static_cast<size_t>(index.numel())), V);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
