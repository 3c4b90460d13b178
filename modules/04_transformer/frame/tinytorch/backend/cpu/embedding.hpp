// Embedding on the CPU: rows of a table picked by index, and the gradient that adds rows back.
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.4.
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

#if TT_BODIES(BACKEND) || defined(TINYTORCH_TASK)
#include <span>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

using Indices = std::span<const int64_t>;

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/embedding.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

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
