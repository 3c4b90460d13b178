// Products of packed weights with many rows of 16-bit activations, by warpgroups (wgmma, compute capability
// 9.0).
//
// The weights are the left operand and stay in registers: a lane decodes the codes of its own fragment,
// multiplies them with the scales of their blocks, and rounds once to the type of x. The tensor cores read x
// from shared memory. A step is 64 numbers of a row; the packed rows come in chunks of 8 blocks, which are
// four steps, because only these are whole pieces of 16 bytes. Warpgroups may be one step apart, so that one
// decodes while another multiplies.
//
// A block has 128 rows of the weights, and 64, 128 or 256 rows of x. Limit: 2 M N K operations at the speed
// of wgmma; for few rows of x, bytes of the packed weights over copy bandwidth. Measured on H100 with Q4_0
// weights of 75 MB: 1.5 times as fast as a product with bf16 weights for 64 rows, as fast for 128, half as
// fast for 512. Decoding
// takes as long as the products, so for many rows decoding once and cuBLASLt win.
#pragma once

#include <tinytorch/backend/cuda/device/pipelined_barrier.cuh>
#include <tinytorch/backend/cuda/device/warpgroup_wide.cuh>
#include <tinytorch/backend/cuda/kernels/block_tiles.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kGroupStep = 64, kStepsOfChunk = 4;  // numbers of a row in a step; steps of a chunk

// kAcross warpgroups have 64 rows of the weights each, and all of the 64 kPanels rows of x; kDeep such teams
// take turns in the steps, and add their sums at the end, in order. A round is one step of each team; kRounds
// rounds of x are in shared memory.
template <class F, int kAcross_, int kDeep_, int kPanels_, int kRounds_>
struct BlockGroup {
  static constexpr int kAcross = kAcross_, kDeep = kDeep_, kPanels = kPanels_, kRounds = kRounds_;
  static constexpr int kThreads = 128 * kAcross * kDeep, kRows = 64 * kAcross, kColumns = 64 * kPanels;
  // A chunk of the rows of the weights has the layout of a stage of BlockTile.
  using Weights = BlockTile<F, 1, kRows / 32, 1, 2, kStepsOfChunk * kGroupStep / 32>;
  static constexpr int kBlocks = Weights::kBlocks, kPitch = Weights::kPitch, kPieces = Weights::kPieces;
  // Warps are at most one round apart. A round is fetched into the place of the third one before it, whose
  // products are complete.
  static constexpr int kAhead = kRounds - 3;
  static constexpr int kChunks = ((kAhead + 2) * kDeep - 1 + kStepsOfChunk - 1) / kStepsOfChunk + 1;
  static constexpr int kStepBytes = kColumns * 128, kChunkBytes = kRows * kPitch;
  static constexpr int kSteps = kRounds * kDeep, kWeightsAt = kSteps * kStepBytes;
  static constexpr int kSumPitch = kRows + 4;  // floats
  static constexpr int kMainBytes = kWeightsAt + kChunks * kChunkBytes, kSumBytes = kColumns * kSumPitch * 4;
  static constexpr unsigned kBytes =
      static_cast<unsigned>(kMainBytes > kSumBytes ? kMainBytes : kSumBytes) + kTileAlignment;
  static_assert(kAhead >= 2);
};

// Copies steps of x: 64 numbers of each of its rows from m0 on. Zeros are outside. A thread copies the same
// piece of rows that lie kStride apart.
template <class T, class Group>
class StepsOfX {
 public:
  __device__ __forceinline__ StepsOfX(const BlockLinearArguments& a, unsigned shared, int64_t m0) {
    const int row = static_cast<int>(threadIdx.x) / 8, piece = static_cast<int>(threadIdx.x) % 8;
    from_ = static_cast<const T*>(a.x) + (m0 + row) * a.x_row + piece * 8;
    stride_ = a.x_row * kStride;
    depth_ = static_cast<int>(a.blocks * 32) - piece * 8;
    rows_ = static_cast<int>(a.M - m0 < Group::kColumns ? a.M - m0 : Group::kColumns) - row;
    to_ = shared + static_cast<unsigned>(row * 128 + (piece ^ row % 8) * 16);
  }
  __device__ __forceinline__ void fetch(int i, int place) const {
    const T* from = from_ + i * kGroupStep;
    const bool inside = i * kGroupStep < depth_;
    const unsigned to_place = to_ + static_cast<unsigned>(place * Group::kStepBytes);
#pragma unroll
    for (int j = 0; j < Group::kColumns / kStride; ++j, from += stride_)
      copy_async(to_place + static_cast<unsigned>(j * kStride * 128), from, inside && j * kStride < rows_);
  }

 private:
  static constexpr int kStride = Group::kThreads / 8;
  static_assert(Group::kColumns % kStride == 0 && kStride % 8 == 0);
  const T* from_;
  int64_t stride_;
  int depth_, rows_;
  unsigned to_;
};

// Scales pairs of codes, which are exact in T, and rounds once to T. A scale is an f16: in bf16 it is the sum
// of a number of 8 bits and a rest of 3 bits, whose product with a code of 4 bits is exact.
template <class T, bool kOffset>
class PairScale {
 public:
  __device__ __forceinline__ PairScale(float scale, float offset) {
    if constexpr (kOffset) {
      scale_ = scale, offset_ = offset;
    } else {
      high_ = pack_pair<T>(scale, scale);
      if constexpr (kBf16) {
        const float rest = scale - low_number(high_);
        rest_ = pack_pair<T>(rest, rest);
      }
    }
  }
  __device__ __forceinline__ unsigned operator()(unsigned codes) const {
    if constexpr (kOffset) {
      return pack_pair<T>(fmaf(low_number(codes), scale_, offset_),
                          fmaf(low_number(codes >> 16), scale_, offset_));
    }
    constexpr unsigned kMinusZeros = 0x80008000u;
    return multiply_add_two<T>(codes, high_,
                               kBf16 ? multiply_add_two<T>(codes, rest_, kMinusZeros) : kMinusZeros);
  }

 private:
  static constexpr bool kBf16 = std::is_same_v<T, BFloat16>;
  static __device__ __forceinline__ float low_number(unsigned pair) {
    T number;
    number.bits = static_cast<uint16_t>(pair);
    return to<float>(number);
  }
  float scale_ = 0, offset_ = 0;
  unsigned high_ = 0, rest_ = 0;
};

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
      float offset = 0;
      if constexpr (F::kOffset) offset = F::offset(block);
      const PairScale<T, F::kOffset> scaled(F::scale(block), offset);
#pragma unroll
      for (int i = 0; i < 4; ++i) left[2 * b + i / 2][i % 2 * 2 + half] = scaled(pairs[i]);
    }
  }
}

// Copies the operands to shared memory, round after round.
template <class F, class T, class Group>
class RoundsOfOperands {
 public:
  __device__ __forceinline__ RoundsOfOperands(const BlockLinearArguments& a, unsigned char* shared, int steps,
                                              int64_t m0, int64_t n0)
      : a_(a),
        x_(a, shared_address(shared), m0),
        weights_(shared + Group::kWeightsAt),
        steps_(steps),
        n0_(n0) {}
  // Starts the copies of the next round, if there is one, as one group.
  __device__ __forceinline__ void fetch() {
#pragma unroll
    for (int d = 0; d < Group::kDeep; ++d) {
      if (next_ < steps_) {
        x_.fetch(next_, place_);
        if (next_ % kStepsOfChunk == 0) {
          fetch_weights<F, Group>(a_, weights_ + chunk_ * Group::kChunkBytes,
                                  next_ / kStepsOfChunk * Group::kBlocks, n0_);
          chunk_ = chunk_ + 1 == Group::kChunks ? 0 : chunk_ + 1;
        }
      }
      place_ = place_ + 1 == Group::kSteps ? 0 : place_ + 1;
      ++next_;
    }
    commit_copies();
  }

 private:
  const BlockLinearArguments& a_;
  StepsOfX<T, Group> x_;
  unsigned char* weights_;
  int steps_, next_ = 0, place_ = 0, chunk_ = 0;
  int64_t n0_;
};

// sum += the products of a step: left [64, 64], and right, 64 numbers of the rows of x.
template <class T, class Group>
__device__ __forceinline__ void multiply_step(float (&sum)[Group::kPanels * 8][4], unsigned (&left)[4][4],
                                              unsigned right) {
  fence_operands(left);
  const SharedMatrix rows(right);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const SharedMatrix part = rows.after(static_cast<unsigned>(k * 32));
    if constexpr (Group::kPanels == 1) {
      multiply_group<T, false>(sum, left[k], part, true);
    } else {
      multiply_wide<T>(sum, left[k], part);
    }
  }
  wgmma_commit();
}

// x of type T, with contiguous rows that begin at multiples of 16 bytes. blockIdx.x counts tiles along M
// first, so that the blocks that run at the same time share rows of the weights in the L2 cache.
template <class F, class T, class Group>
static __global__ void __launch_bounds__(Group::kThreads, 1)
    block_groups_kernel(const __grid_constant__ BlockLinearArguments a, int64_t tiles_along_m) {
  const int64_t m0 = blockIdx.x % tiles_along_m * Group::kColumns,
                n0 = blockIdx.x / tiles_along_m * Group::kRows;
  __shared__ uint64_t barrier_state;
  const PipelinedBarrier barrier(&barrier_state);
  const unsigned base = aligned_shared_memory();
  unsigned char* const shared =
      dynamic_shared<unsigned char>() + (base - shared_address(dynamic_shared<unsigned char>()));
  const int rounds = static_cast<int>((a.blocks + 2 * Group::kDeep - 1) / (2 * Group::kDeep));
  // The last steps may be beyond the rows, and are zeros.
  RoundsOfOperands<F, T, Group> operands(a, shared, rounds * Group::kDeep, m0, n0);
  for (int i = 0; i < Group::kAhead; ++i) operands.fetch();

  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int across = warp / 4 % Group::kAcross, deep = warp / 4 / Group::kAcross;
  const int row = across * 64 + warp % 4 * 16 + lane / 4;
  float sum[Group::kPanels * 8][4] = {};
  fence_operands(sum);  // else the zeros are set between the products, and the compiler serializes these
  unsigned left[4][4];
  const unsigned char* const weights = shared + Group::kWeightsAt + row * Group::kPitch;
  int at = deep, chunk = 0, in_chunk = deep;  // places of the team's step
  wait_for_copies<Group::kAhead - 1>();
  fence_async_proxy();
  __syncthreads();  // round 0 is there
#pragma unroll 1
  for (int i = 0; i < rounds; ++i) {
    wait_for_copies<Group::kAhead - 2>();  // round i + 1 is there, as far as this thread copies it
    wgmma_wait<0>();                       // the products that read `left` are complete
    fence_async_proxy();
    if (i > 0) barrier.wait(static_cast<unsigned>(i - 1));
    barrier.arrive();
    decode_step<F, T>(left, weights + chunk * Group::kChunkBytes, Group::kPitch, in_chunk * 2);
    multiply_step<T, Group>(sum, left, base + static_cast<unsigned>(at * Group::kStepBytes));
    operands.fetch();
    at += Group::kDeep, in_chunk += Group::kDeep;
    if (at >= Group::kSteps) at -= Group::kSteps;
    if (in_chunk >= kStepsOfChunk)
      in_chunk -= kStepsOfChunk, chunk = chunk + 1 == Group::kChunks ? 0 : chunk + 1;
  }
  wgmma_wait<0>();
  wait_for_copies<0>();
  fence_operands(sum);
  float* const sums = reinterpret_cast<float*>(shared);  // in the place of the operands
  for (int turn = 0; turn < Group::kDeep; ++turn) {
    __syncthreads();
    if (deep == turn) add_sums<Group>(sums, sum, row, turn == 0);
  }
  __syncthreads();
  store_sums<Group>(a, sums, m0, n0);
}

// --- launchers ---

template <class F, class T, class Group>
bool launch_block_group(const BlockLinearArguments& a) {
  return launch_block_tile_by<Group>(block_groups_kernel<F, T, Group>, a);
}

// Multiplies by the tile that was fastest for this shape on H100, or returns false: then it is faster to
// decode the weights and to call the ordinary product, which is so for many rows of x. Narrow weights take
// blocks with few of their rows, of which there are more.
template <class F, class T>
bool launch_block_product(const BlockLinearArguments& a) {
  constexpr int kLong = F::kBytes > 24 ? 16 : 32, kShort = kLong / 2;  // blocks of a row in a stage
  constexpr int kRounds = F::kBytes > 24 ? 5 : 6;
  const bool narrow = a.N < int64_t{96} * properties(current_device()).multiprocessors;
  if (a.M <= 8) {
    return narrow ? launch_block_tile<F, T, BlockTile<F, 1, 1, 8, 3, kLong>>(a)
                  : launch_block_tile<F, T, BlockTile<F, 1, 2, 4, 2, kLong>>(a);
  }
  if (a.M <= 16) {
    return narrow ? launch_block_tile<F, T, BlockTile<F, 2, 1, 8, 2, kLong>>(a)
                  : launch_block_tile<F, T, BlockTile<F, 2, 2, 4, 2, kShort>>(a);
  }
  if (a.M <= 32 && !narrow) return launch_block_tile<F, T, BlockTile<F, 4, 4, 4, 2, kShort>>(a);
  if (a.M <= 640 && !narrow && a.aligned && has_warpgroups()) {
    return a.M <= 64    ? launch_block_group<F, T, BlockGroup<F, 2, 2, 1, kRounds>>(a)
           : a.M <= 128 ? launch_block_group<F, T, BlockGroup<F, 2, 1, 2, kRounds>>(a)
                        : launch_block_group<F, T, BlockGroup<F, 2, 1, 4, 5>>(a);
  }
  return a.M <= 64 && launch_block_tile<F, T, BlockTile<F, 8, 1, 8, 2, kShort>>(a);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
