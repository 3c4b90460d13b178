// Wanda: an element counts by its magnitude times the norm of its input.
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.3. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/pruning/nm.hpp>
#include <tinytorch/quantization/input_statistics.hpp>

namespace tinytorch::inline TT_BUILD {

inline Tensor wanda_scores(const Tensor& weight, const InputStatistics& inputs, TT_LOC);  // task 8.3
// Task 8.3.
inline Tensor wanda_mask(const Tensor& weight, const InputStatistics& inputs, double sparsity, TT_LOC);
// Task 8.3.
inline Tensor wanda_mask(const Tensor& weight, const InputStatistics& inputs, int64_t N, int64_t M, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/pruning/activation_aware.hpp>
