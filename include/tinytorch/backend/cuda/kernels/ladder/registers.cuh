// The third step of a fast product on a GPU: a thread computes 4 x 4 results in registers.
//
// With one result per thread each multiply-add reads two numbers from shared memory, which then is the limit.
// 4 x 4 results need 8 numbers for 16 multiply-adds, in two accesses of 16 bytes. Tiles of 64 x 64 also halve
// what is read from device memory, where a piece of four neighbours is one access if it is aligned.
#pragma once

#include <tinytorch/backend/cuda/kernels/ladder/product.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A tile of results, the depth of a stage, and the results of a thread in each direction.
inline constexpr int kRegisterTile = 64, kRegisterDepth = 16, kOwn = 4, kRegisterThreads = 256;
// Floats from one k to the next in a's tile [k][m]: 4 more, for fewer bank conflicts where it is written.
inline constexpr int kRegisterPitch = kRegisterTile + 4;

// Four neighbours of a row of `width` numbers, from column c on, as far as they exist; others are 0. vectors:
// pieces are aligned, so that one that is whole is read at once.
__device__ __forceinline__ float4 load_piece(const float* row, int64_t c, int64_t width, bool vectors) {
  if (vectors && c + 4 <= width) return *reinterpret_cast<const float4*>(row + c);
  return make_float4(c < width ? row[c] : 0.0f, c + 1 < width ? row[c + 1] : 0.0f,
                     c + 2 < width ? row[c + 2] : 0.0f, c + 3 < width ? row[c + 3] : 0.0f);
}

// Brings rows m0 to m0 + 63 and columns k0 to k0 + 15 of a to shared memory, transposed: a's [m, k] is at
// to[k * kRegisterPitch + m]. Thread t has the piece of row t / 4, columns t % 4 * 4 and the following. Rows
// that a does not have are 0.
__device__ __forceinline__ void bring_a(float* to_, const LadderProduct<float>& p, int64_t m0, int64_t k0) {
  const int t = static_cast<int>(threadIdx.x), r = t / 4, k = t % 4 * 4;
  const bool inside = m0 + r < p.M;
  const float4 x =
      inside ? load_piece(p.a + (m0 + r) * p.a_row, k0 + k, p.K, p.a_vectors) : make_float4(0, 0, 0, 0);
  to_[k * kRegisterPitch + r] = x.x;
  to_[(k + 1) * kRegisterPitch + r] = x.y;
  to_[(k + 2) * kRegisterPitch + r] = x.z;
  to_[(k + 3) * kRegisterPitch + r] = x.w;
}

// Brings rows k0 to k0 + 15 and columns n0 to n0 + 63 of b to shared memory: b's [k, n] is at
// to[k * kRegisterTile + n]. Thread t has the piece of row t / 16, columns t % 16 * 4 and the following.
__device__ __forceinline__ void bring_b(float* to_, const LadderProduct<float>& p, int64_t k0, int64_t n0) {
  const int t = static_cast<int>(threadIdx.x), k = t / 16, n = t % 16 * 4;
  *reinterpret_cast<float4*>(to_ + k * kRegisterTile + n) =
      k0 + k < p.K ? load_piece(p.b + (k0 + k) * p.b_row, n0 + n, p.N, p.b_vectors) : make_float4(0, 0, 0, 0);
}

// Thread t computes rows t / 16 * kOwn and the following, columns t % 16 * kOwn and the following of the
// block's tile. For each kRegisterDepth of the depth: bring_a, bring_b; barrier; for each k a float4 of each
// tile and 16 products; barrier. p.write stores each result that exists.
static __global__ void __launch_bounds__(kRegisterThreads)
    registers_kernel(const __grid_constant__ LadderProduct<float> p) {
  __shared__ __align__(16) float a_tile[kRegisterDepth * kRegisterPitch];
  __shared__ __align__(16) float b_tile[kRegisterDepth * kRegisterTile];
  const LadderTile tile = ladder_tile(p.N, kRegisterTile, kRegisterTile);
  const int row = static_cast<int>(threadIdx.x) / 16 * kOwn, col = static_cast<int>(threadIdx.x) % 16 * kOwn;
  float sum[kOwn][kOwn] = {};
  for (int64_t k0 = 0; k0 < p.K; k0 += kRegisterDepth) {
    bring_a(a_tile, p, tile.m, k0);
    bring_b(b_tile, p, k0, tile.n);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kRegisterDepth; ++k) {
      const float4 x = *reinterpret_cast<const float4*>(a_tile + k * kRegisterPitch + row);
      const float4 y = *reinterpret_cast<const float4*>(b_tile + k * kRegisterTile + col);
      const float a_own[kOwn] = {x.x, x.y, x.z, x.w}, b_own[kOwn] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sum[i][j] += a_own[i] * b_own[j];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int64_t m = tile.m + row + i, n = tile.n + col + j;
      if (m < p.M && n < p.N) p.write(m, n, sum[i][j]);
    }
  }
}

void gemm_registers(const View& out, const View& a, const View& b) {
  run_ladder_product<float>("gemm_registers", out, a, b, [](const LadderProduct<float>& p) {
    launch(registers_kernel, {ladder_grid(p, kRegisterTile, kRegisterTile), dim3(kRegisterThreads)}, p);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
