// The fourth step of a fast product on a GPU: tensor cores.
//
// A warp multiplies 16 x 16 numbers of a by 16 x 8 of b with one instruction, whose operands are distributed
// over its lanes. The numbers are bf16, half the memory of f32; their products and sums are f32, and a result
// is rounded once, when it is written. A block of four warps computes 64 x 64 results, each warp 32 x 32.
// Source: NVIDIA, "PTX ISA", mma and ldmatrix.
#pragma once

#include <tinytorch/backend/cuda/device/tensor_core.cuh>
#include <tinytorch/backend/cuda/kernels/ladder/product.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kMmaTile = 64, kMmaDepth = 32, kMmaThreads = 128, kMmaPart = 32, kMmaPiece = 8;
// Numbers from one row to the next in shared memory, where a stage is a's tile [64][32] and then b's
// [32][64]. With these pitches the eight rows of a small matrix are in different banks.
inline constexpr int kMmaPitchA = kMmaDepth + 8, kMmaPitchB = kMmaTile + 8;
inline constexpr int kMmaStageA = kMmaTile * kMmaPitchA, kMmaStage = kMmaStageA + kMmaDepth * kMmaPitchB;

// Eight neighbours of a row of `width` numbers from column c on; those that do not exist are 0.
__device__ __forceinline__ uint4 load_eight(const BFloat16* row, int64_t c, int64_t width, bool vectors) {
  if (vectors && c + kMmaPiece <= width) return *reinterpret_cast<const uint4*>(row + c);
  BFloat16 x[kMmaPiece] = {};
  for (int i = 0; i < kMmaPiece && c + i < width; ++i) x[i] = row[c + i];
  uint4 piece;
  memcpy(&piece, x, sizeof(piece));
  return piece;
}

// Brings the stage at k0 of the block's tile to shared memory, with zeros outside of the matrices.
__device__ __forceinline__ void bring_stage(BFloat16* stage, const LadderProduct<BFloat16>& p,
                                            const LadderTile& tile, int64_t k0) {
  for (int i = static_cast<int>(threadIdx.x); i < kMmaTile * kMmaDepth / kMmaPiece; i += kMmaThreads) {
    const int r = i / 4, c = i % 4 * kMmaPiece, k = i / 8, n = i % 8 * kMmaPiece;
    *reinterpret_cast<uint4*>(stage + r * kMmaPitchA + c) =
        tile.m + r < p.M ? load_eight(p.a + (tile.m + r) * p.a_row, k0 + c, p.K, p.a_vectors) : uint4{};
    *reinterpret_cast<uint4*>(stage + kMmaStageA + k * kMmaPitchB + n) =
        k0 + k < p.K ? load_eight(p.b + (k0 + k) * p.b_row, tile.n + n, p.N, p.b_vectors) : uint4{};
  }
}

// sum += a b of this warp's 32 rows of a, from `a` on, and its 32 columns of b, from `b` on, over kMmaDepth.
// sum[i][n] is the tile of rows 16 i and columns 8 n. For each 16 of the depth, lane l passes to
// load_matrices and load_transposed the address of row l % 8 of the small matrix number l / 8:
//   a[i]: rows 16 i and 16 i + 8 of a, then both again 8 columns further (load_matrices)
//   b[j]: rows k and k + 8 of b at column 16 j, then both again 8 columns further (load_transposed)
// multiply_add<BFloat16>(sum[i][n], a[i], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]) adds a tile.
__device__ __forceinline__ void multiply_stage(float (&sum)[2][4][4], const BFloat16* a, const BFloat16* b) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, row = lane % 8, which = lane / 8;
#pragma unroll
  for (int k = 0; k < kMmaDepth; k += 16) {
    unsigned a_fragment[2][4], b_fragment[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      load_matrices(a_fragment[i],
                    shared_address(a + (i * 16 + which % 2 * 8 + row) * kMmaPitchA + k + which / 2 * 8));
      load_transposed(b_fragment[i],
                      shared_address(b + (k + which % 2 * 8 + row) * kMmaPitchB + i * 16 + which / 2 * 8));
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int n = 0; n < 4; ++n)
        multiply_add<BFloat16>(sum[i][n], a_fragment[i], b_fragment[n / 2][n % 2 * 2],
                               b_fragment[n / 2][n % 2 * 2 + 1]);
    }
  }
}

// Writes the sums of this warp, whose first row and column are m0 and n0, as far as they exist. Lane l has of
// each tile [16, 8]: columns l % 4 * 2 and the next of row l / 4, in sum[0] and sum[1], and of row l / 4 + 8,
// in sum[2] and sum[3].
__device__ __forceinline__ void write_sums(const LadderProduct<BFloat16>& p, const float (&sum)[2][4][4],
                                           int64_t m0, int64_t n0) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t m = m0 + i * 16 + e / 2 * 8 + lane / 4, column = n0 + n * 8 + lane % 4 * 2 + e % 2;
        if (m < p.M && column < p.N) p.write(m, column, sum[i][n][e]);
      }
    }
  }
}

// Each kMmaDepth of the depth takes bring_stage, a barrier, multiply_stage, and a barrier. Warp w has rows w
// / 2 * 32 and columns w % 2 * 32 of the block's tile. Shared memory is dynamic: dynamic_shared<BFloat16>().
static __global__ void __launch_bounds__(kMmaThreads)
    mma_kernel(const __grid_constant__ LadderProduct<BFloat16> p) {
  BFloat16* const stage = dynamic_shared<BFloat16>();
  const LadderTile tile = ladder_tile(p.N, kMmaTile, kMmaTile);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, row = warp / 2 * kMmaPart,
            col = warp % 2 * kMmaPart;
  float sum[2][4][4] = {};
  for (int64_t k0 = 0; k0 < p.K; k0 += kMmaDepth) {
    bring_stage(stage, p, tile, k0);
    __syncthreads();
    multiply_stage(sum, stage + row * kMmaPitchA, stage + kMmaStageA + col);
    __syncthreads();
  }
  write_sums(p, sum, tile.m + row, tile.n + col);
}

void gemm_mma(const View& out, const View& a, const View& b) {
  run_ladder_product<BFloat16>("gemm_mma", out, a, b, [](const LadderProduct<BFloat16>& p) {
    launch(mma_kernel, {ladder_grid(p, kMmaTile, kMmaTile), dim3(kMmaThreads), kMmaStage * 2}, p);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
