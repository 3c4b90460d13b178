// The second step of a fast product on a GPU: tiles of both operands in shared memory.
//
// A block computes 32 x 32 results. A number of a is needed for 32 of them, and so is one of b: from shared
// memory each is read from device memory once per block, 2 M N K / 32 numbers instead of 2 M N K.
#pragma once

#include <tinytorch/backend/cuda/kernels/ladder/product.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kSharedTile = 32;

// Thread (x, y) computes row y and column x of the block's tile. For each kSharedTile of the depth: the
// thread brings one number of a's tile [m][k] and one of b's [k][n], 0 outside of the matrices; barrier;
// kSharedTile products; barrier. All threads come to all barriers. The lanes of a warp differ in x: they read
// one number of a's tile together, and neighbours of b's, so no two of them need the same bank.
static __global__ void __launch_bounds__(kSharedTile* kSharedTile)
    shared_kernel(const __grid_constant__ LadderProduct<float> p) {
  __shared__ float a_tile[kSharedTile][kSharedTile], b_tile[kSharedTile][kSharedTile];
  const LadderTile tile = ladder_tile(p.N, kSharedTile, kSharedTile);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t m = tile.m + y, n = tile.n + x;
  float sum = 0;
  for (int64_t k0 = 0; k0 < p.K; k0 += kSharedTile) {
    a_tile[y][x] = m < p.M && k0 + x < p.K ? p.a[m * p.a_row + k0 + x] : 0.0f;
    b_tile[y][x] = k0 + y < p.K && n < p.N ? p.b[(k0 + y) * p.b_row + n] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kSharedTile; ++k) sum += a_tile[y][k] * b_tile[k][x];
    __syncthreads();
  }
  if (m < p.M && n < p.N) p.write(m, n, sum);
}

// A block of dim3(kSharedTile, kSharedTile) threads for each tile.
void gemm_shared(const View& out, const View& a, const View& b) {
  run_ladder_product<float>("gemm_shared", out, a, b, [](const LadderProduct<float>& p) {
    launch(shared_kernel, {ladder_grid(p, kSharedTile, kSharedTile), dim3(kSharedTile, kSharedTile)}, p);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
