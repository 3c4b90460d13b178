// The third step of a fast matrix product: blocks are copied to panels, in the order in which they are read.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.3. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/backend/cpu/gemm/micro_kernel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu::ladder {

// The numbers that `count` rows (or columns), in whole panels of `width`, need for a depth.
inline int64_t panel_elements(int64_t count, int64_t width, int64_t depth) {
  return ceil_div(count, width) * width * depth;
}

template <class T>
void pack_a(T* to, const Matrix<T>& a, int64_t rows, int64_t depth);  // task 6.3
template <class T>
void pack_b(T* to, const Matrix<T>& b, int64_t depth, int64_t cols);  // task 6.3

}  // namespace tinytorch::inline TT_BUILD::backend::cpu::ladder

#include <tasks/backend/cpu/ladder/panels.hpp>
