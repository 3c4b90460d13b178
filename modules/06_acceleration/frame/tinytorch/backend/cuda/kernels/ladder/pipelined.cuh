// The fifth step of a fast product on a GPU: copies that overlap with products.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.11. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/backend/cuda/kernels/ladder/mma.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

__device__ __forceinline__ void request_stage(BFloat16* stage, const LadderProduct<BFloat16>& p,
                                              const LadderTile& tile, int64_t k0);  // task 6.11

template <int kStages>
void launch_pipelined(const LadderProduct<BFloat16>& p);  // task 6.11

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/ladder/pipelined.cuh>
