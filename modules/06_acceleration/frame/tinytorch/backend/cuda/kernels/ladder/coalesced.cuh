// The first step of a fast product on a GPU: neighbouring threads read neighbouring numbers.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.7. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/backend/cuda/kernels/ladder/product.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A block has kCoalescedRows warps, each with kWarp results of a row.
inline constexpr int kCoalescedRows = 8;

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/ladder/coalesced.cuh>
