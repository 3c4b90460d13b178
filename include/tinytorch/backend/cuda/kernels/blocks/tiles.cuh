// Products of packed weights with several rows of 16-bit activations, by tensor cores (mma): for devices
// without warpgroups, and for rows that do not begin at multiples of 16 bytes. blocks/few_rows.cuh and
// blocks/warpgroups.cuh have the others.
//
// The weights are operand A of a tile, so a lane decodes exactly the codes that its own fragment
// needs: 8 codes of a block as four pairs, without a shuffle. Codes are exact in bf16 and f16. Two mma sum a
// block of 32 numbers in f32, and the block's scale is applied to that sum, so weights are not rounded.
// cp.async moves stages of some blocks of each row ahead, packed, and the activations beside them. A stage
// has 288 bytes of a row or more: pieces of half that size take memory a third longer.
//
// A warp has 32 rows of the weights. The warps of a block have other rows, or other blocks of the same rows:
// then they add their sums at the end, in order. Limit: bytes of the packed weights over copy bandwidth.
// Measured on H100 with Q4_0 weights of 75 MB: 0.73 of it for 8 rows of x, 0.59 for 16, 0.50 for 32.
// Source: Frantar et al., "MARLIN: mixed-precision auto-regressive parallel inference", 2024, for the idea of
// decoding into fragments.
#pragma once

#include <tinytorch/backend/cuda/device/blocks.cuh>
#include <tinytorch/backend/cuda/device/linear_result.cuh>
#include <tinytorch/backend/cuda/device/tensor_core.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct BlockLinearArguments {
  const uint8_t* weight = nullptr;
  int64_t row_bytes = 0, N = 0, M = 0, blocks = 0;
  const int8_t* code = nullptr;  // activations of 8 bits, or
  const float* scale = nullptr;
  const void* x = nullptr;  // activations as they are
  int64_t x_row = 0, x_step = 0;
  DType x_dtype = DType::f32;
  bool aligned = false;  // the rows of the weights begin at multiples of 16 bytes
  LinearResult to;
};

// kAcross warps with other rows of the weights, kDeep warps with other blocks; 8 kTiles rows of x.
template <class F, int kTiles_, int kAcross_, int kDeep_, int kStages_, int kBlocks_>
struct BlockTile {
  static constexpr int kBlocks = kBlocks_, kDepth = 32 * kBlocks;  // blocks and numbers of a row in a stage
  static constexpr int kTiles = kTiles_, kAcross = kAcross_, kDeep = kDeep_, kStages = kStages_;
  static constexpr int kThreads = kAcross * kDeep * kWarp, kRows = kAcross * 32, kColumns = kTiles * 8;
  static constexpr int kPieces = kBlocks * F::kBytes / 16;  // of 16 bytes, of a row of the weights
  static_assert(kBlocks * F::kBytes % 16 == 0 && kBlocks % kDeep == 0);
  // Distances of rows in shared memory: the eight rows and four lanes of a request lie in different banks.
  static constexpr int kPitch = kPieces % 2 == 1 ? kPieces * 16 : (kPieces + 1) * 16,
                       kXPitch = kDepth * 2 + 32;
  static constexpr int kXAt = kRows * kPitch, kStageBytes = kXAt + kColumns * kXPitch;
  static constexpr int kSumPitch = kRows + 4;  // floats
  static constexpr unsigned kBytes = static_cast<unsigned>(
      kStages * kStageBytes > kColumns * kSumPitch * 4 ? kStages * kStageBytes : kColumns * kSumPitch * 4);
};

// Starts the copies of blocks [b, b + kBlocks) of the rows of the weights from n0 on. What is outside becomes
// zeros.
template <class F, class Tile>
__device__ __forceinline__ void fetch_weights(const BlockLinearArguments& a, unsigned char* stage, int64_t b,
                                              int64_t n0) {
  constexpr int kCopies = Tile::kRows * Tile::kPieces;
  const uint8_t* const from = a.weight + n0 * a.row_bytes + b * F::kBytes;
  const int64_t remaining = a.row_bytes - b * F::kBytes;  // bytes of a row from block b on
  const int bytes = static_cast<int>(remaining < Tile::kPieces * 16 ? remaining : Tile::kPieces * 16);
  const int rows = static_cast<int>(a.N - n0 < Tile::kRows ? a.N - n0 : Tile::kRows);
  if (a.aligned) {  // rows are whole pieces
    const unsigned to_ = shared_address(stage);
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kCopies; i += Tile::kThreads) {
      const int row = i / Tile::kPieces, at = i % Tile::kPieces * 16;
      copy_async(to_ + static_cast<unsigned>(row * Tile::kPitch + at), from + row * a.row_bytes + at,
                 row < rows && at < bytes);
    }
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < kCopies * 8; i += Tile::kThreads) {
    const int row = i / (Tile::kPieces * 8), at = i % (Tile::kPieces * 8) * 2;
    uint16_t& to_ = *reinterpret_cast<uint16_t*>(stage + row * Tile::kPitch + at);
    to_ = row < rows && at < bytes ? *reinterpret_cast<const uint16_t*>(from + row * a.row_bytes + at)
                                   : uint16_t{0};
  }
}
// Starts the copies of a stage: blocks [b, b + kBlocks) of the weights, and the activations of these blocks.
template <class F, class T, class Tile>
__device__ __forceinline__ void fetch_blocks(const BlockLinearArguments& a, unsigned char* stage, int64_t b,
                                             int64_t m0, int64_t n0) {
  fetch_weights<F, Tile>(a, stage, b, n0);
  const unsigned to_ = shared_address(stage);
  constexpr int kPieces = Tile::kDepth / 8;  // of 16 bytes
  const T* const x = static_cast<const T*>(a.x);
  for (int i = static_cast<int>(threadIdx.x); i < Tile::kColumns * kPieces; i += Tile::kThreads) {
    const int row = i / kPieces, piece = i % kPieces;
    const int64_t m = m0 + row, k = b * 32 + piece * 8;
    copy_async(to_ + static_cast<unsigned>(Tile::kXAt + row * Tile::kXPitch + piece * 16),
               x + m * a.x_row + k, m < a.M && k < a.blocks * 32);
  }
}

// sum += the products of a stage's blocks that this warp has.
template <class F, class T, class Tile>
__device__ __forceinline__ void multiply_blocks(float (&sum)[2][Tile::kTiles][4], const unsigned char* stage,
                                                int across, int deep) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, t = lane % 4;
  const unsigned char* const x = stage + Tile::kXAt + g * Tile::kXPitch + t * 8;

#pragma unroll 2
  for (int b = deep; b < Tile::kBlocks; b += Tile::kDeep) {
    unsigned a_fragment[2][2][4];
    float scale[2][2], offset[2][2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unsigned pairs[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned char* const block =
            stage + (across * 32 + i * 16 + half * 8 + g) * Tile::kPitch + b * F::kBytes;
        F::template pairs<T>(block, 4 * t, 4 * t + 2, pairs[half]);
        scale[i][half] = F::scale(block);
        if constexpr (F::kOffset) offset[i][half] = F::offset(block);
      }
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        a_fragment[i][k][0] = pairs[0][2 * k], a_fragment[i][k][1] = pairs[1][2 * k];
        a_fragment[i][k][2] = pairs[0][2 * k + 1], a_fragment[i][k][3] = pairs[1][2 * k + 1];
      }
    }
#pragma unroll
    for (int n = 0; n < Tile::kTiles; ++n) {
      const auto* const b_fragment = reinterpret_cast<const uint2*>(x + n * 8 * Tile::kXPitch + b * 64);
      const uint2 low = b_fragment[0], high = b_fragment[4];  // numbers 4 t to 4 t + 3, and those 16 further
      float x_sum[4] = {};
      if constexpr (F::kOffset) {
        constexpr unsigned kOne = PairOf<T>::kOne;
        const unsigned ones[4] = {kOne, kOne, kOne, kOne};
        multiply_add<T>(x_sum, ones, low.x, low.y);
        multiply_add<T>(x_sum, ones, high.x, high.y);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float part[4] = {};
        multiply_add<T>(part, a_fragment[i][0], low.x, low.y);
        multiply_add<T>(part, a_fragment[i][1], high.x, high.y);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sum[i][n][e] = fmaf(scale[i][e / 2], part[e], sum[i][n][e]);
          if constexpr (F::kOffset) sum[i][n][e] = fmaf(offset[i][e / 2], x_sum[e], sum[i][n][e]);
        }
      }
    }
  }
}

// Adds a lane's sums of 16 rows of the weights to those of the tile in shared memory, [x row][weight row], or
// begins them. `row` is the lane's first row of the weights in the tile.
template <class Tile, int kCount>
__device__ __forceinline__ void add_sums(float* sums, const float (&sum)[kCount][4], int row, bool begin) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float& at = sums[(n * 8 + t * 2 + e % 2) * Tile::kSumPitch + row + e / 2 * 8];
      at = begin ? sum[n][e] : at + sum[n][e];
    }
  }
}
// Writes the sums of a tile to the result, by kThreads threads.
template <class Tile, int kThreads = Tile::kThreads>
__device__ __forceinline__ void store_sums(const BlockLinearArguments& a, const float* sums, int64_t m0,
                                           int64_t n0) {
  for (int i = static_cast<int>(threadIdx.x); i < Tile::kColumns * Tile::kRows; i += kThreads) {
    const int m = i / Tile::kRows, n = i % Tile::kRows;
    if (m0 + m < a.M && n0 + n < a.N) a.to.store(m0 + m, n0 + n, sums[m * Tile::kSumPitch + n]);
  }
}

// x of type T, with contiguous rows that begin at multiples of 16 bytes. blockIdx.x counts tiles along M
// first, so that the blocks that run at the same time share rows of the weights in the L2 cache.
template <class F, class T, class Tile>
static __global__ void __launch_bounds__(Tile::kThreads)
    block_tiles_kernel(const __grid_constant__ BlockLinearArguments a, int64_t tiles_along_m) {
  const int64_t m0 = blockIdx.x % tiles_along_m * Tile::kColumns,
                n0 = blockIdx.x / tiles_along_m * Tile::kRows;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int across = warp % Tile::kAcross, deep = warp / Tile::kAcross;
  unsigned char* const shared = dynamic_shared<unsigned char>();
  const int64_t stages = ceil_div(a.blocks, Tile::kBlocks);
  const auto stage = [&](int64_t i) { return shared + i % Tile::kStages * Tile::kStageBytes; };
  const auto fetch = [&](int64_t i) {
    if (i < stages) fetch_blocks<F, T, Tile>(a, stage(i), i * Tile::kBlocks, m0, n0);
    commit_copies();
  };
  for (int i = 0; i < Tile::kStages - 1; ++i) fetch(i);
  float sum[2][Tile::kTiles][4] = {};
  for (int64_t i = 0; i < stages; ++i) {
    wait_for_copies<Tile::kStages - 2>();
    __syncthreads();  // stage i is there, and all warps are done with the one before, which is filled again
    fetch(i + Tile::kStages - 1);
    multiply_blocks<F, T, Tile>(sum, stage(i), across, deep);
  }
  wait_for_copies<0>();
  float* const sums = dynamic_shared<float>();
  for (int turn = 0; turn < Tile::kDeep; ++turn) {
    __syncthreads();
    if (deep != turn) continue;
#pragma unroll
    for (int i = 0; i < 2; ++i) add_sums<Tile>(sums, sum[i], across * 32 + i * 16 + lane / 4, turn == 0);
  }
  __syncthreads();
  store_sums<Tile>(a, sums, m0, n0);
}

// --- launchers ---

// Launches a kernel of tiles of Tile::kColumns rows of x and Tile::kRows rows of the weights. Returns false
// if the device has too little shared memory.
template <class Tile, class Kernel>
bool launch_block_tile_by(Kernel* kernel, const BlockLinearArguments& a) {
  if (Tile::kBytes > properties(current_device()).shared_per_block_optin) return false;
  const int64_t down = ceil_div(a.M, Tile::kColumns);
  LaunchConfig config;
  config.grid.x = static_cast<unsigned>(down * ceil_div(a.N, Tile::kRows));
  config.block.x = Tile::kThreads;
  config.shared_bytes = Tile::kBytes;
  launch(kernel, config, a, down);
  return true;
}

template <class F, class T, class Tile>
bool launch_block_tile(const BlockLinearArguments& a) {
  return launch_block_tile_by<Tile>(block_tiles_kernel<F, T, Tile>, a);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
