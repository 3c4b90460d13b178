// The first step of a fast product on a GPU: neighbouring threads read neighbouring numbers.
//
// A warp has 32 neighbouring results of one row: for each k its threads read one number of a, which one
// access serves for all of them, and 32 neighbours of b: 4 sectors of 32 bytes. With neighbouring rows
// instead, a warp would need 32 sectors of a.
#pragma once

#include <tinytorch/backend/cuda/kernels/ladder/product.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A block has kCoalescedRows warps, each with kWarp results of a row.
inline constexpr int kCoalescedRows = 8;

// Thread (x, y) of a block computes one result: row y and column x of the block's tile, which begins at
// ladder_tile(p.N, kCoalescedRows, kWarp). The sum over k is a float; p.write stores it. Threads outside of
// the result do nothing. Offsets have 64 bits.
static __global__ void __launch_bounds__(kCoalescedRows* kWarp)
    coalesced_kernel(const __grid_constant__ LadderProduct<float> p) {
  const LadderTile tile = ladder_tile(p.N, kCoalescedRows, kWarp);
  const int64_t m = tile.m + threadIdx.y, n = tile.n + threadIdx.x;
  if (m >= p.M || n >= p.N) return;
  const float *a = p.a + m * p.a_row, *b = p.b + n;
  float sum = 0;
  for (int64_t k = 0; k < p.K; ++k) sum += a[k] * b[k * p.b_row];
  p.write(m, n, sum);
}

// run_ladder_product<float> checks the operands and gives p; a block for each tile of kCoalescedRows x kWarp
// results (ladder_grid), with dim3(kWarp, kCoalescedRows) threads.
void gemm_coalesced(const View& out, const View& a, const View& b) {
  run_ladder_product<float>("gemm_coalesced", out, a, b, [](const LadderProduct<float>& p) {
    launch(coalesced_kernel, {ladder_grid(p, kCoalescedRows, kWarp), dim3(kWarp, kCoalescedRows)}, p);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
