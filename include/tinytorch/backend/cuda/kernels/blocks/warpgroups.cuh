// Products of packed weights with many rows of 16-bit activations, by warpgroups (wgmma, compute capability
// 9.0).
//
// The weights are operand A and stay in registers: a lane decodes the codes of its own fragment,
// multiplies them with the scales of their blocks, and rounds to the type of x. The tensor cores read x from
// shared memory. A step is 64 numbers of a row; the packed rows come in chunks of 8 blocks, which are
// four steps, because only these are whole pieces of 16 bytes. Two threads start the copies of x and of the
// chunks (tensor_map.cuh), so that the warpgroups do nothing but decode a step while the tensor cores
// multiply the one before.
//
// A block has 128 rows of the weights and 64, 128 or 256 rows of x, and computes one such tile after the
// other. If there are too few tiles for the device, the kParts blocks of a cluster share a tile: each has a
// part of the depth, and sends its sums to the block that writes them. Limit: 2 M N K operations at the speed
// of wgmma; for few rows of x, the some 120 instructions that a warp needs for a step. Measured on H200 with
// Q4_0 weights of 75 MB, against cuBLAS with bf16 weights: 1.65 times as fast for 64 rows, 1.0 for 512.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/cluster.cuh>
#include <tinytorch/backend/cuda/device/tensor_map.cuh>
#include <tinytorch/backend/cuda/device/transposed_result.cuh>
#include <tinytorch/backend/cuda/device/warpgroup_wide.cuh>
#include <tinytorch/backend/cuda/kernels/blocks/few_rows.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kGroupStep = 64, kStepsOfChunk = 4;  // numbers of a row in a step; steps of a chunk

// 64 kPanels rows of x; kStages steps of x and kChunks chunks of the weights are in shared memory; kParts
// blocks share a tile.
template <class F, int kPanels_, int kStages_, int kChunks_, int kParts_ = 1>
struct BlockGroup {
  static constexpr int kPanels = kPanels_, kStages = kStages_, kChunks = kChunks_, kParts = kParts_;
  static constexpr int kAcross = 2;
  static constexpr int kConsumers = 128 * kAcross, kThreads = kConsumers + 128;
  static constexpr int kRows = 64 * kAcross, kColumns = 64 * kPanels;
  static constexpr int kStepBytes = kColumns * 128;
  static constexpr int kBlocks = kStepsOfChunk * kGroupStep / 32, kPitch = kBlocks * F::kBytes;
  static constexpr int kChunkBytes = ceil_div(kRows * kPitch, 128) * 128;
  static constexpr unsigned kChunksAt = kStages * kStepBytes, kResultAt = kChunksAt + kChunks * kChunkBytes;
  static constexpr unsigned kBytes = kResultAt + kAcross * kTransposedBytes + kTileAlignment;
  static constexpr int kSums = 32 * kPanels * 128;  // floats of a warpgroup
  static_assert(kPitch % 16 == 0 && kPitch <= 512);
  static_assert((kParts - 1) * kSums * 4 <= kStages * kStepBytes);  // sums of other blocks lie in the stages
  static_assert(kParts == 1 || kParts >= kAcross);                  // block g writes the rows of warpgroup g
};

// Scales pairs of codes, which are exact in T. A scale is an f16; in bf16 it is rounded, and so is the
// product.
template <class T, bool kOffset>
class PairScale {
 public:
  __device__ __forceinline__ PairScale(float scale, float offset) : scale_(scale), offset_(offset) {
    if constexpr (!kOffset) pair_ = pack_pair<T>(scale, scale);
  }
  __device__ __forceinline__ unsigned operator()(unsigned codes) const {
    if constexpr (kOffset) {
      return pack_pair<T>(fmaf(low_number(codes), scale_, offset_),
                          fmaf(low_number(codes >> 16), scale_, offset_));
    } else {
      constexpr unsigned kMinusZeros = 0x80008000u;
      return multiply_add_two<T>(codes, pair_, kMinusZeros);
    }
  }

 private:
  static __device__ __forceinline__ float low_number(unsigned pair) {
    T number;
    number.bits = static_cast<uint16_t>(pair);
    return to<float>(number);
  }
  float scale_, offset_;
  unsigned pair_ = 0;
};

// Operand A of a step: two blocks of a lane's two rows. `rows` is the lane's first row in the chunk.
template <class F, class T>
__device__ __forceinline__ void decode_step(unsigned (&a_fragment)[4][4], const unsigned char* rows,
                                            int pitch, int first_block) {
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
      for (int i = 0; i < 4; ++i) a_fragment[2 * b + i / 2][i % 2 * 2 + half] = scaled(pairs[i]);
    }
  }
}

// The barriers of a block, and where its tiles are: tiles along M first, so that the blocks that run at the
// same time share rows of the weights in the L2 cache.
template <class Group>
struct BlockGroupTiles {
  int64_t down;
  SharedTiles<Group::kParts> own;
  StageBarriers full, empty, arrived, used;  // of the steps of x; of the chunks
  unsigned shared;

  template <class Work>
  __device__ __forceinline__ void for_each(Work&& work) const {
    own.for_each([&](int64_t tile) { work(tile % down * Group::kColumns, tile / down * Group::kRows); });
  }
};

template <class Group>
__device__ __forceinline__ void fetch_steps(const BlockGroupTiles<Group>& tiles, const TensorMap& x) {
  RingPlace at;
  tiles.for_each([&](int64_t m0, int64_t) {
    for (int i = tiles.own.begin * kStepsOfChunk; i < tiles.own.end * kStepsOfChunk; ++i) {
      tiles.empty.wait_for_place(at);
      tiles.full.expect(at, Group::kStepBytes);
      copy_box(tiles.shared + static_cast<unsigned>(at.place * Group::kStepBytes), x, i * kGroupStep,
               static_cast<int>(m0), tiles.full, at);
      at.next(Group::kStages);
    }
  });
}
template <class Group>
__device__ __forceinline__ void fetch_chunks(const BlockGroupTiles<Group>& tiles, const TensorMap& weights) {
  RingPlace at;
  tiles.for_each([&](int64_t, int64_t n0) {
    for (int i = tiles.own.begin; i < tiles.own.end; ++i) {
      tiles.used.wait_for_place(at);
      tiles.arrived.expect(at, static_cast<unsigned>(Group::kRows * Group::kPitch));
      copy_box(tiles.shared + Group::kChunksAt + static_cast<unsigned>(at.place * Group::kChunkBytes),
               weights, i * (Group::kPitch / 2), static_cast<int>(n0), tiles.arrived, at);
      at.next(Group::kChunks);
    }
  });
}

// sum += the products of a step: a_fragment of A [64, 64], and B, 64 numbers of the rows of x at b_address.
template <class T, class Group>
__device__ __forceinline__ void multiply_step(float (&sum)[Group::kPanels * 8][4],
                                              unsigned (&a_fragment)[4][4], unsigned b_address) {
  fence_operands(a_fragment);
  const SharedMatrix rows(b_address);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const SharedMatrix part = rows.after(static_cast<unsigned>(k * 32));
    if constexpr (Group::kPanels == 1) {
      multiply_group<T, false>(sum, a_fragment[k], part, true);
    } else {
      multiply_wide<T>(sum, a_fragment[k], part);
    }
  }
  wgmma_commit();
}

// Adds the sums of the other blocks of the cluster, in the order of the blocks, if this one writes the rows
// of the warpgroup. Returns false in the others. All threads of the block take part in two cluster barriers.
template <class Group>
__device__ __forceinline__ bool add_parts(float (&sum)[Group::kPanels * 8][4], unsigned shared, int group) {
  const int rank = cluster_rank(), thread = static_cast<int>(threadIdx.x) % 128;
  float4* const place = reinterpret_cast<float4*>(shared_pointer(shared)) + thread;
  constexpr int kStep = 128, kVectors = Group::kSums / 4;
  cluster_sync();  // the steps in the other blocks have been read
  if (rank != group) {
    float4* const to = map_to_block(place, group) + (rank < group ? rank : rank - 1) * kVectors;
#pragma unroll
    for (int n = 0; n < Group::kPanels * 8; ++n)
      to[n * kStep] = make_float4(sum[n][0], sum[n][1], sum[n][2], sum[n][3]);
  }
  cluster_sync();
  if (rank != group) return false;
#pragma unroll
  for (int part = 0; part < Group::kParts - 1; ++part) {
#pragma unroll
    for (int n = 0; n < Group::kPanels * 8; ++n) {
      const float4 other = place[part * kVectors + n * kStep];
      sum[n][0] += other.x, sum[n][1] += other.y, sum[n][2] += other.z, sum[n][3] += other.w;
    }
  }
  return true;
}

// A consumer warpgroup.
template <class F, class T, class Group>
__device__ __forceinline__ void multiply_chunks(const BlockGroupTiles<Group>& tiles,
                                                const BlockLinearArguments& a) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp,
            group = warp / 4;
  const unsigned char* const weights =
      shared_pointer(tiles.shared + Group::kChunksAt) + (warp * 16 + lane / 4) * Group::kPitch;
  const auto release = [&](const StageBarriers& barriers, RingPlace at) {
    __syncwarp();
    if (lane == 0) barriers.arrive(at);
  };
  RingPlace at, before, chunk;
  tiles.for_each([&](int64_t m0, int64_t n0) {
    float sum[Group::kPanels * 8][4] = {};
    fence_operands(sum);  // else the zeros are set between the products, and the compiler serializes these
    unsigned a_fragment[2][4][4];  // of this step and of the one before, whose products may be incomplete
    bool pending = false;
#pragma unroll 1
    for (int c = tiles.own.begin; c < tiles.own.end; ++c) {
      tiles.arrived.wait(chunk);
#pragma unroll
      for (int i = 0; i < kStepsOfChunk; ++i) {
        decode_step<F, T>(a_fragment[i % 2], weights + chunk.place * Group::kChunkBytes, Group::kPitch,
                          i * 2);
        tiles.full.wait(at);
        multiply_step<T, Group>(sum, a_fragment[i % 2],
                                tiles.shared + static_cast<unsigned>(at.place * Group::kStepBytes));
        wgmma_wait<1>();  // the products of the step before are complete
        if (pending) release(tiles.empty, before);
        pending = true, before = at;
        at.next(Group::kStages);
      }
      release(tiles.used, chunk);
      chunk.next(Group::kChunks);
    }
    wgmma_wait<0>();
    fence_operands(sum);
    if (pending) release(tiles.empty, before);
    if constexpr (Group::kParts > 1) {
      if (!add_parts<Group>(sum, tiles.shared, group)) return;
    }
    write_transposed<T>(a.to,
                        {m0, n0 + group * 64, a.M, a.N, group,
                         tiles.shared + Group::kResultAt + static_cast<unsigned>(group) * kTransposedBytes},
                        sum);
  });
}

template <class F, class T, class Group>
static __global__ void __launch_bounds__(Group::kThreads, 1)
    block_groups_kernel(const __grid_constant__ BlockLinearArguments a, const __grid_constant__ TensorMap x,
                        const __grid_constant__ TensorMap weights, int64_t count, int64_t down) {
  if constexpr (kHasWarpgroups) {
    __shared__ StageState full[Group::kStages], empty[Group::kStages], arrived[Group::kChunks],
        used[Group::kChunks];
    const BlockGroupTiles<Group> tiles{down,
                                       {count, static_cast<int>(ceil_div(a.blocks, Group::kBlocks))},
                                       StageBarriers(full),
                                       StageBarriers(empty),
                                       StageBarriers(arrived),
                                       StageBarriers(used),
                                       aligned_shared_memory()};
    if (threadIdx.x == 0) {
      constexpr int kWarps = Group::kConsumers / kWarp;
      tiles.full.init(Group::kStages, 1), tiles.empty.init(Group::kStages, kWarps);
      tiles.arrived.init(Group::kChunks, 1), tiles.used.init(Group::kChunks, kWarps);
      publish_barriers();
    }
    __syncthreads();
    if (threadIdx.x < Group::kConsumers) {
      take_registers<232>();
      multiply_chunks<F, T, Group>(tiles, a);
    } else {
      give_registers<40>();
      if (threadIdx.x == Group::kConsumers) fetch_steps<Group>(tiles, x);
      if (threadIdx.x == Group::kConsumers + kWarp) fetch_chunks<Group>(tiles, weights);
      if constexpr (Group::kParts > 1) {
        __syncwarp();
        cluster_sync(), cluster_sync();  // those of add_parts()
      }
    }
  } else {
    (void)a, (void)x, (void)weights, (void)down, (void)count;
  }
}

// --- launchers ---

template <class F, class T, class Group>
bool launch_block_group(const BlockLinearArguments& a) {
  const int64_t down = ceil_div(a.M, Group::kColumns), count = down * ceil_div(a.N, Group::kRows);
  return launch_shared_tiles<F, T, Group>(block_groups_kernel<F, T, Group>, a, count, down);
}
// Multiplies by the tiles that are expected to take the least time, or returns false: then it is faster to
// decode the weights and to call the ordinary product, which is so for very many rows of x, too.
//
// Times are in units of a tile of 64 rows of x, which takes 6 ns on H200 for each of its K numbers; tiles of
// 128 and 256 rows take 1.28 and 1.88 units. Of clusters of four, not all multiprocessors find partners, and
// a second turn of them takes much longer.
template <class F, class T>
bool launch_block_groups(const BlockLinearArguments& a) {
  constexpr bool kLong = F::kBytes > 24;
  constexpr int kChunks = kLong ? 3 : 4;
  struct Choice {
    bool (*launch)(const BlockLinearArguments&);
    int panels, parts;
    double units;
  };
  constexpr Choice kChoices[] = {
    {launch_block_group<F, T, BlockGroup<F, 4, 4, 2>>, 4, 1, 1.88},
    {launch_block_group<F, T, BlockGroup<F, 2, 6, kLong ? 2 : 3>>, 2, 1, 1.28},
    {launch_block_group<F, T, BlockGroup<F, 1, 8, kChunks>>, 1, 1, 1},
#if !TINYTORCH_CUDA_SIM  // in the emulator a cluster is one block
    {launch_block_group<F, T, BlockGroup<F, 2, 6, kLong ? 2 : 3, 2>>, 2, 2, 1.28},
    {launch_block_group<F, T, BlockGroup<F, 1, 8, kChunks, 2>>, 1, 2, 1},
    {launch_block_group<F, T, BlockGroup<F, 1, 8, kChunks, 4>>, 1, 4, 1},
#endif
  };
  if (a.M > 2048) return false;
  const int64_t multiprocessors = properties(current_device()).multiprocessors;
  const auto time = [&](const Choice& c) {
    const int64_t blocks = ceil_div(a.M, 64 * c.panels) * ceil_div(a.N, 128) * c.parts;
    if (c.parts == 4 && blocks > multiprocessors * 7 / 8) return std::numeric_limits<double>::infinity();
    return static_cast<double>(ceil_div(blocks, multiprocessors)) * c.units / c.parts;
  };
  const Choice* best = kChoices;
  for (const Choice& c : kChoices)
    if (time(c) < time(*best)) best = &c;
  // The ordinary product reads the decoded weights, or is limited by the tensor cores.
  const double decoded =
      static_cast<double>(a.N) * (1.1e-4 + std::max(0.8e-4, static_cast<double>(a.M) * 5.6e-7));
  return (a.M <= 128 || time(*best) <= decoded) && best->launch(a);
}

// Multiplies by the tile that was fastest for this shape on H100 and H200, or returns false.
template <class F, class T>
bool launch_block_product(const BlockLinearArguments& a) {
  constexpr int kLong = F::kBytes > 24 ? 16 : 32, kShort = kLong / 2;  // blocks of a row in a stage
  if (a.aligned && has_warpgroups()) {
    if (a.M <= 32) return launch_block_few_rows<F, T>(a);
    if (launch_block_groups<F, T>(a)) return true;
  }
  if (a.M <= 8) return launch_block_tile<F, T, BlockTile<F, 1, 1, 8, 3, kLong>>(a);
  if (a.M <= 16) return launch_block_tile<F, T, BlockTile<F, 2, 1, 8, 2, kLong>>(a);
  return a.M <= 64 && launch_block_tile<F, T, BlockTile<F, 8, 1, 8, 2, kShort>>(a);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
