// The launchers of the steps that lead from three loops to a fast matrix product on a GPU.
//
// Each computes out [M, N] = a [M, K] b [K, N], sums in f32 over k in order. a and b are f32 for the first
// three steps, whose out is f32, and bf16 for the last two, whose out is f32 or bf16, rounded once. Matrices
// have any strides; fast are those with contiguous rows, others are copied. Throws TT-SHAPE-02 if sizes do
// not fit, TT-SHAPE-04 if an operand is no matrix, and TT-DTYPE-02 for other dtypes. matmul() in launch.hpp
// is the library's own product.
//
//   gemm_coalesced   a thread for each result; a warp reads 32 neighbours of b at once      2 M N K reads
//   gemm_shared      tiles of 32 x 32 in shared memory                                 2 M N K / 32 reads
//   gemm_registers   4 x 4 results per thread, from tiles of 64 x 64                   2 M N K / 64 reads
//   gemm_mma         tensor cores (compute capability 8.0)
//   gemm_pipelined   and copies of the next stages, while a stage is multiplied
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void gemm_coalesced(const View& out, const View& a, const View& b);
void gemm_shared(const View& out, const View& a, const View& b);
void gemm_registers(const View& out, const View& a, const View& b);
void gemm_mma(const View& out, const View& a, const View& b);
// stages: 2 to 4 buffers for the columns of a and rows of b that are on their way or multiplied.
void gemm_pipelined(const View& out, const View& a, const View& b, int stages = 3);

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
