// Products of packed weights with many rows of 16-bit activations, by warpgroups (wgmma, compute capability
// 9.0).
//
// The weights are the left operand and stay in registers: a lane decodes the codes of its own fragment,
// multiplies them with the scales of their blocks in f32, and rounds once to the type of x. The tensor cores
// read x from shared memory. While they multiply step i, the warps decode step i + 1. A step is 64 numbers
// of a row; the packed rows come in chunks of 8 blocks, which are four steps, because only these are whole
// pieces of 16 bytes.
//
// A block has 128 rows of the weights, and 64, 128 or 256 rows of x. Limit: 2 M N K operations at the speed
// of wgmma; for few rows of x, bytes of the packed weights over copy bandwidth.
#pragma once

#include <tinytorch/backend/cuda/device/warpgroup.cuh>
#include <tinytorch/backend/cuda/kernels/block_tiles.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kGroupStep = 64,  // numbers of a row in a step
    kStepsOfChunk = kStageDepth / kGroupStep;

// 64 kPanels rows of x; kSteps steps of x are in shared memory.
template <class F, int kPanels_, int kSteps_>
struct BlockGroup {
  static constexpr int kPanels = kPanels_, kSteps = kSteps_, kRows = 128, kColumns = 64 * kPanels;
  static constexpr int kThreads = 256;
  using Weights = BlockTile<F, 1, kRows / 32, 2, 2>;  // for the layout of a chunk of the rows
  static constexpr int kPitch = Weights::kPitch, kPieces = Weights::kPieces;
  static constexpr int kAhead = kSteps - 2;  // steps that are fetched ahead of the one in work
  static constexpr int kChunks = (kStepsOfChunk - 1 + kAhead) / kStepsOfChunk + 1;
  static constexpr int kStepBytes = kColumns * 128, kChunkBytes = kRows * kPitch;
  static constexpr int kWeightsAt = kSteps * kStepBytes;
  static constexpr int kSumPitch = kRows + 4;  // floats
  static constexpr int kMainBytes = kWeightsAt + kChunks * kChunkBytes, kSumBytes = kColumns * kSumPitch * 4;
  static constexpr unsigned kBytes = static_cast<unsigned>(kMainBytes > kSumBytes ? kMainBytes : kSumBytes);
  static_assert(kAhead >= 1);
};

// Starts the copy of a step of x: numbers [k, k + 64) of its rows from m0 on. Zeros are outside.
template <class T, class Group>
__device__ __forceinline__ void fetch_step(const BlockLinearArguments& a, unsigned to_, int64_t k,
                                           int64_t m0) {
  const T* const x = static_cast<const T*>(a.x);
#pragma unroll
  for (int j = 0; j < Group::kColumns * 8 / Group::kThreads; ++j) {
    const int i = j * Group::kThreads + static_cast<int>(threadIdx.x), row = i / 8, piece = i % 8;
    const int64_t m = m0 + row, from = k + piece * 8;
    copy_async(to_ + static_cast<unsigned>(row * 128 + (piece ^ row % 8) * 16), x + m * a.x_row + from,
               m < a.M && from < a.blocks * 32);
  }
}

// Two codes as they are in T, times a scale, plus an offset; rounded to T once.
template <class T, bool kOffset>
__device__ __forceinline__ unsigned scaled_pair(unsigned codes, float scale, float offset) {
  float low, high;
  if constexpr (std::is_same_v<T, BFloat16>) {
    const unsigned bits[2] = {codes << 16, codes & 0xffff0000u};
    memcpy(&low, &bits[0], 4), memcpy(&high, &bits[1], 4);
  } else {
    T t;
    t.bits = static_cast<uint16_t>(codes), low = to<float>(t);
    t.bits = static_cast<uint16_t>(codes >> 16), high = to<float>(t);
  }
  if constexpr (kOffset) return pack_pair<T>(fmaf(low, scale, offset), fmaf(high, scale, offset));
  return pack_pair<T>(low * scale, high * scale);
}

// The left operand of a step: two blocks of a lane's two rows. `rows` is the lane's first row in the chunk.
template <class F, class T>
__device__ __forceinline__ void decode_step(unsigned (&left)[4][4], const unsigned char* rows, int pitch,
                                            int first_block) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int b = 0; b < 2; ++b) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned char* const block = rows + half * 8 * pitch + (first_block + b) * F::kBytes;
      unsigned pairs[4];
      F::template pairs<T>(block, 2 * t, 2 * t + 8, pairs);
      const float scale = F::scale(block);
      float offset = 0;
      if constexpr (F::kOffset) offset = F::offset(block);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        left[2 * b + i / 2][i % 2 * 2 + half] = scaled_pair<T, F::kOffset>(pairs[i], scale, offset);
    }
  }
}

// x of type T, with contiguous rows that begin at multiples of 16 bytes. blockIdx.x counts tiles along M
// first, so that the blocks that run at the same time share rows of the weights in the L2 cache.
template <class F, class T, class Group>
static __global__ void __launch_bounds__(Group::kThreads, 1)
    block_groups_kernel(const __grid_constant__ BlockLinearArguments a, int64_t tiles_along_m) {
  const int64_t m0 = blockIdx.x % tiles_along_m * Group::kColumns,
                n0 = blockIdx.x / tiles_along_m * Group::kRows;
  unsigned char* const shared = dynamic_shared<unsigned char>();
  const unsigned base = shared_address(shared);
  const int64_t steps = (a.blocks + 1) / 2;
  const auto fetch = [&](int64_t i) {
    if (i < steps) {
      fetch_step<T, Group>(a, base + static_cast<unsigned>(i % Group::kSteps * Group::kStepBytes),
                           i * kGroupStep, m0);
      if (i % kStepsOfChunk == 0) {
        const int64_t chunk = i / kStepsOfChunk;
        fetch_weights<F, Group>(a, shared + Group::kWeightsAt + chunk % Group::kChunks * Group::kChunkBytes,
                                chunk * kStageBlocks, n0);
      }
    }
    commit_copies();
  };
  for (int i = 0; i < Group::kAhead; ++i) fetch(i);

  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = warp * 16 + lane / 4;
  float sum[Group::kPanels][8][4] = {};
  unsigned left[2][4][4];
  const auto step = [&](int64_t i, unsigned(&mine)[4][4]) {
    wait_for_copies<Group::kAhead - 1>();
#pragma unroll
    for (int p = 0; p < Group::kPanels; ++p) fence_operands(sum[p]);
    wgmma_wait<1>();  // the products of step i - 2 are done: their place and registers are free
    fence_async_proxy();
    __syncthreads();
    fetch(i + Group::kAhead);
    const int64_t chunk = i / kStepsOfChunk;
    decode_step<F, T>(
        mine, shared + Group::kWeightsAt + chunk % Group::kChunks * Group::kChunkBytes + row * Group::kPitch,
        Group::kPitch, static_cast<int>(i % kStepsOfChunk) * 2);
    const SharedMatrix x(base + static_cast<unsigned>(i % Group::kSteps * Group::kStepBytes));
    fence_operands(mine);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int p = 0; p < Group::kPanels; ++p)
        multiply_group<T, false>(sum[p], mine[k], x.after(static_cast<unsigned>(p * 8192 + k * 32)), true);
    }
    wgmma_commit();
  };
  for (int64_t i = 0; i < steps; i += 2) {
    step(i, left[0]);
    if (i + 1 < steps) step(i + 1, left[1]);
  }
  wgmma_wait<0>();
#pragma unroll
  for (int p = 0; p < Group::kPanels; ++p) fence_operands(sum[p]);
  wait_for_copies<0>();
  __syncthreads();                              // all are done with the operands, whose place the sums take
  float* const sums = dynamic_shared<float>();  // [x row][weight row]
#pragma unroll
  for (int p = 0; p < Group::kPanels; ++p) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sums[(p * 64 + n * 8 + lane % 4 * 2 + e % 2) * Group::kSumPitch + row + e / 2 * 8] = sum[p][n][e];
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < Group::kColumns * Group::kRows; i += Group::kThreads) {
    const int m = i / Group::kRows, n = i % Group::kRows;
    if (m0 + m < a.M && n0 + n < a.N) a.to.store(m0 + m, n0 + n, sums[m * Group::kSumPitch + n]);
  }
}

// --- launchers ---

template <class F, class T, class Group>
void launch_block_group(const BlockLinearArguments& a) {
  const int64_t down = ceil_div(a.M, Group::kColumns);
  LaunchConfig config;
  config.grid.x = static_cast<unsigned>(down * ceil_div(a.N, Group::kRows));
  config.block.x = Group::kThreads;
  config.shared_bytes = Group::kBytes;
  launch(block_groups_kernel<F, T, Group>, config, a, down);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
