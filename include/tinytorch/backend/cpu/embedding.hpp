// Embedding on the CPU: rows of a table selected by index, and the gradient, which adds rows of dy into the
// table.
//
// The gradient is deterministic without sorting or atomics: threads divide the columns, and each adds its own
// columns of all rows in the order of the indices.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [..., C] = weight[index], contiguous; weight [V, C] of the same dtype; index i64 [...]. Indices must be
// in [0, V): check with first_outside.
TT_API void embedding(const View& out, const View& weight, const View& index);
// dw [V, C]: each row is the sum of the rows of dy [..., C] with its index, or zero.
TT_API void embedding_grad(const View& dw, const View& dy, const View& index);
// Row-major position of the first index outside [0, V), or -1.
TT_API int64_t first_outside(const View& index, int64_t V);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <cstring>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline std::vector<int64_t> read_indices(const View& index) {
  std::vector<int64_t> out(static_cast<size_t>(index.numel()));
  if (out.empty()) return out;
  Strides strides = Strides::filled(index.rank(), 1);
  for (int d = index.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * index.shape[d + 1];
  copy({out.data(), DType::i64, index.shape, strides}, index);
  return out;
}

TT_API int64_t first_outside(const View& index, int64_t V) {
  const std::vector<int64_t> rows = read_indices(index);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= V) return static_cast<int64_t>(i);
  }
  return -1;
}

TT_API void embedding(const View& out, const View& weight, const View& index) {
  if (out.numel() == 0) return;
  const std::vector<int64_t> rows = read_indices(index);
  const int64_t C = weight.shape[1], element = static_cast<int64_t>(size_of(weight.dtype));
  if (weight.strides[1] != 1 && C > 1) {  // a transposed table: strided copies
    for (size_t i = 0; i < rows.size(); ++i) {
      copy({out.as<char>() + static_cast<int64_t>(i) * C * element, out.dtype, {C}, {1}},
           {weight.as<char>() + rows[i] * weight.strides[0] * element,
            weight.dtype,
            {C},
            {weight.strides[1]}});
    }
    return;
  }
  parallel_for(
      static_cast<int64_t>(rows.size()), std::max<int64_t>(1, 16384 / C), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          std::memcpy(out.as<char>() + i * C * element,
                      weight.as<const char>() + rows[static_cast<size_t>(i)] * weight.strides[0] * element,
                      static_cast<size_t>(C * element));
        }
      });
}

TT_API void embedding_grad(const View& dw, const View& dy, const View& index) {
  if (dw.numel() == 0) return;
  const std::vector<int64_t> rows = read_indices(index);
  dispatch_floating(dw.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> grad(dy);
    ContiguousOutput<T> to(dw);
    const int64_t V = dw.shape[0], C = dw.shape[1];
    T* const table = to.data();
    parallel_for(V * C, 65536,
                 [&](int64_t begin, int64_t end) { std::fill(table + begin, table + end, T(0)); });
    const int64_t grain =
        static_cast<int64_t>(rows.size()) * C < 32768 ? C : 16;  // in columns: a cache line of f32
    parallel_for(C, grain, [&](int64_t begin, int64_t end) {
      for (size_t i = 0; i < rows.size(); ++i) {
        T* out = table + rows[i] * C;
        const T* in = grad.data() + static_cast<int64_t>(i) * C;
        TT_SIMD
        for (int64_t c = begin; c < end; ++c) out[c] += in[c];
      }
    });
    to.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
