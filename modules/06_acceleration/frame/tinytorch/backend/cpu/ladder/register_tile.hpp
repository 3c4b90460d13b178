// The fourth step of a fast matrix product: a tile of c stays in registers for the whole depth.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.4. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/backend/cpu/gemm/micro_kernel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu::ladder {

template <class T>
void tile_product(T* c, int64_t c_row, const T* a, const T* b, int64_t depth, int64_t rows, int64_t cols,
                  bool accumulate);  // task 6.4

}  // namespace tinytorch::inline TT_BUILD::backend::cpu::ladder

#include <tasks/backend/cpu/ladder/register_tile.hpp>
