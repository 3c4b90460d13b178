// Embedding: rows of a table selected by index, and the gradient, which adds rows in the order of the
// indices (index.cuh; contract: backend/cpu/embedding.hpp). An index outside of the table gives a row of
// zeros.
#pragma once

#include <tinytorch/backend/cuda/kernels/index.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void embedding(const View& out, const View& weight, const View& index) {
  if (out.numel() == 0) return;
  const Contiguous table(weight), at(index);
  take_rows(out, table.view(), at.view(), 1, index.numel(), weight.shape[0], weight.shape[1]);
}

void embedding_grad(const View& dw, const View& dy, const View& index) {
  if (dw.numel() == 0) return;
  if (!dw.contiguous()) {
    const DeviceScratch<char> sums(dw.numel() * static_cast<int64_t>(size_of(dw.dtype)));
    const View whole = contiguous_view(sums.data(), dw.dtype, dw.shape);
    embedding_grad(whole, dy, index);
    return copy(dw, whole);
  }
  const Contiguous gradient(dy), at(index);
  sum_groups<false>(dw, gradient.view(), at.as<const int64_t>(), 1, index.numel(), dw.shape[0], dw.shape[1]);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
