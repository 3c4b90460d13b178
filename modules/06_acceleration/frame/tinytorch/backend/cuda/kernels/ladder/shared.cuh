// The second step of a fast product on a GPU: tiles of both operands in shared memory.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.8. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/backend/cuda/kernels/ladder/product.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kSharedTile = 32;

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/ladder/shared.cuh>
