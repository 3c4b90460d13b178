// The fourth step of a fast product on a GPU: tensor cores.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.10. It is cut
// from the library's header by modules/frames.py.
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

// Task 6.10.
__device__ __forceinline__ void multiply_stage(float (&sum)[2][4][4], const BFloat16* a, const BFloat16* b);
__device__ __forceinline__ void write_sums(const LadderProduct<BFloat16>& p, const float (&sum)[2][4][4],
                                           int64_t m0, int64_t n0);  // task 6.10

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/ladder/mma.cuh>
