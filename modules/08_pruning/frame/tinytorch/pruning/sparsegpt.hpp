// SparseGPT: removes elements column by column, and lets the columns to the right make up for it.
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.4. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/pruning/nm.hpp>
#include <tinytorch/quantization/gptq.hpp>

namespace tinytorch::inline TT_BUILD {

struct SparseGptOptions {
  double sparsity = 0.5;     // of each block of columns; unused if `of` is not 0
  int64_t keep = 0, of = 0;  // N:M: keep N of each M columns, {.keep = 2, .of = 4}
  int64_t block = 128;       // columns whose mask is chosen together
  double damping = 0.01;     // added to the diagonal of X^T X, as a multiple of its mean
};

namespace pruning {

inline Tensor sparsegpt_mask(const double* w, const double* U, int64_t N, int64_t K, int64_t first,
                             int64_t width, const SparseGptOptions& o, Loc loc);  // task 8.4

}  // namespace pruning

inline Tensor sparsegpt(const Tensor& weight, const InputStatistics& inputs, const SparseGptOptions& o = {},
                        TT_LOC);  // task 8.4

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/pruning/sparsegpt.hpp>
