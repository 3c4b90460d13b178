// Products of packed weights with up to 32 rows of 16-bit activations (compute capability 9.0).
//
// The arithmetic is that of blocks/tiles.cuh: a lane decodes the codes of its own fragment, two mma sum a
// block of 32 numbers in f32, and the block's scale is applied to that sum. Here one thread starts the copies
// (tensor_map.cuh), so that the other warps compute no addresses and wait for nothing but their own bytes.
//
// A chunk is 8 blocks of each row: the shortest piece of a row that is a multiple of 16 bytes in each format.
// A stage holds a chunk of the weights and the 256 numbers of each row of x that belong to it. Warps share
// the rows of a tile (kAcross, 32 rows each) and its chunks (kDeep, every kDeep-th chunk each); the sums of
// the latter are added at the end, in order. A stage is always read by the same warps, so that none waits for
// a turn of the ring before the turn before is complete, which a barrier cannot tell apart. If there are too
// few tiles for the device, the kParts blocks of a cluster share a tile: each has a part of the depth, and
// writes a part of the result. Limit: bytes of the packed weights over copy bandwidth. Measured on H200 with
// Q4_0 weights of 75 MB: 0.62 of it for 16 rows of x, 0.51 for 32.
#pragma once

#include <tinytorch/backend/cuda/device/cluster.cuh>
#include <tinytorch/backend/cuda/device/tensor_map.cuh>
#include <tinytorch/backend/cuda/kernels/blocks/tiles.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kFewRowsBytes = 225 * 1024;  // of shared memory, for all stages and the sums

// 8 kTiles rows of x, and 32 kAcross rows of the weights.
template <class F, int kTiles_, int kAcross_, int kDeep_, int kParts_ = 1>
struct FewRowsTile {
  static constexpr int kTiles = kTiles_, kAcross = kAcross_, kDeep = kDeep_, kParts = kParts_;
  static constexpr int kConsumers = kAcross * kDeep * kWarp, kThreads = kConsumers + kWarp;
  static constexpr int kRows = kAcross * 32, kColumns = kTiles * 8;
  static constexpr int kBlocks = 8, kPitch = kBlocks * F::kBytes, kPanels = kBlocks / 2;
  static constexpr int kPanelBytes = kColumns * 128;  // 64 numbers of each row of x
  static constexpr int kCopied = kPanels * kPanelBytes + kRows * kPitch;
  static constexpr int kStageBytes = kPanels * kPanelBytes + ceil_div(kRows * kPitch, 1024) * 1024;
  static constexpr int kSumPitch = kRows + 4;  // floats
  static constexpr int kSumBytes = kColumns * kSumPitch * 4;
  static constexpr int kFitting = (kFewRowsBytes - kSumBytes - kTileAlignment) / kStageBytes,
                       kStages = (kFitting < 16 ? kFitting : 16) / kDeep * kDeep;
  static constexpr unsigned kSumsAt = kStages * kStageBytes, kBytes = kSumsAt + kSumBytes + kTileAlignment;
  static_assert(kPitch % 16 == 0 && kPitch <= 512 && kStages > 0);
};

// A lane's codes of a block of 32 rows of the weights, as operand A of two mma for each 16 rows, and the
// scales of its four rows.
template <class F, class T>
struct BlockFragment {
  unsigned code[2][2][4];
  float scale[2][2], offset[2][2];

  // `block` is the block of the lane's first row, g; its others are g + 8, g + 16 and g + 24.
  __device__ __forceinline__ void decode(const unsigned char* block, int pitch) {
    const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned char* const at = block + (i * 16 + half * 8) * pitch;
        unsigned pairs[4];
        F::template pairs<T>(at, 2 * t, 2 * t + 8, pairs);
        scale[i][half] = F::scale(at);
        if constexpr (F::kOffset) offset[i][half] = F::offset(at);
#pragma unroll
        for (int p = 0; p < 4; ++p) code[i][p / 2][p % 2 * 2 + half] = pairs[p];
      }
    }
  }
};

// sum += the products of a block, whose numbers of x are the fragments x_fragment.
template <class F, class T, int kTiles>
__device__ __forceinline__ void multiply_block(float (&sum)[2][kTiles][4], const BlockFragment<F, T>& w,
                                               const unsigned (&x_fragment)[kTiles][4]) {
  float part[2][kTiles][4] = {};
#pragma unroll
  for (int k = 0; k < 2; ++k) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
        multiply_add<T>(part[i][n], w.code[i][k], x_fragment[n][2 * k], x_fragment[n][2 * k + 1]);
    }
  }
  float x_sum[kTiles][4] = {};
  if constexpr (F::kOffset) {
    constexpr unsigned kOne = PairOf<T>::kOne;
    const unsigned ones[4] = {kOne, kOne, kOne, kOne};
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
        multiply_add<T>(x_sum[n], ones, x_fragment[n][2 * k], x_fragment[n][2 * k + 1]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sum[i][n][e] = fmaf(w.scale[i][e / 2], part[i][n][e], sum[i][n][e]);
        if constexpr (F::kOffset) sum[i][n][e] = fmaf(w.offset[i][e / 2], x_sum[n][e], sum[i][n][e]);
      }
    }
  }
}

// sum += the products of the chunk in the stage at `stage`, for the 32 rows of warp `across`.
template <class F, class T, class Tile>
__device__ __forceinline__ void multiply_chunk(float (&sum)[2][Tile::kTiles][4], unsigned stage, int across) {
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned char* const weights = shared_pointer(stage + Tile::kPanels * Tile::kPanelBytes) +
                                       (across * 32 + static_cast<int>(lane) / 4) * Tile::kPitch;
  const unsigned x_row = stage + lane % 8 * 128;
  const unsigned x_at[2] = {x_row + ((lane / 8) ^ (lane % 8)) * 16,
                            x_row + ((lane / 8 + 4) ^ (lane % 8)) * 16};
  BlockFragment<F, T> w[2];  // of this block and of the next one
  w[0].decode(weights, Tile::kPitch);
#pragma unroll
  for (int b = 0; b < Tile::kBlocks; ++b) {
    if (b + 1 < Tile::kBlocks) w[(b + 1) % 2].decode(weights + (b + 1) * F::kBytes, Tile::kPitch);
    unsigned x_fragment[Tile::kTiles][4];
#pragma unroll
    for (int n = 0; n < Tile::kTiles; ++n)
      load_matrices(x_fragment[n], x_at[b % 2] + static_cast<unsigned>(b / 2 * Tile::kPanelBytes + n * 1024));
    multiply_block<F, T>(sum, w[b % 2], x_fragment);
  }
}

// The stage of the chunk that a block copies as number `i`.
template <int kStages>
__device__ __forceinline__ RingPlace place_of(unsigned i) {
  return {static_cast<int>(i % kStages), i / kStages};
}

// The work of a block: every gridDim.x-th tile, and the whole depth of it, or, in a cluster of kParts blocks,
// one tile of them all, and the chunks [begin, end) of its depth.
template <int kParts>
struct SharedTiles {
  int64_t count;
  int begin, end;

  __device__ __forceinline__ SharedTiles(int64_t tiles, int chunks) : count(tiles) {
    const int part = kParts > 1 ? cluster_rank() : 0;
    begin = chunks * part / kParts, end = chunks * (part + 1) / kParts;
  }
  template <class Work>
  __device__ __forceinline__ void for_each(Work&& work) const {
    if constexpr (kParts > 1) {
      work(static_cast<int64_t>(blockIdx.x / kParts));
    } else {
      for (int64_t tile = blockIdx.x; tile < count; tile += gridDim.x) work(tile);
    }
  }
};

template <class Tile>
struct FewRowsWork {
  StageBarriers full, empty;
  unsigned shared;
  SharedTiles<Tile::kParts> tiles;
};

template <class Tile>
__device__ __forceinline__ void fetch_few_rows(const FewRowsWork<Tile>& own, const TensorMap& x,
                                               const TensorMap& weights) {
  RingPlace at;
  own.tiles.for_each([&](int64_t tile) {
    for (int c = own.tiles.begin; c < own.tiles.end; ++c) {
      const unsigned stage = own.shared + static_cast<unsigned>(at.place * Tile::kStageBytes);
      own.empty.wait_for_place(at);
      own.full.expect(at, Tile::kCopied);
      copy_box(stage + Tile::kPanels * Tile::kPanelBytes, weights, c * (Tile::kPitch / 2),
               static_cast<int>(tile * Tile::kRows), own.full, at);
      for (int p = 0; p < Tile::kPanels; ++p)
        copy_box(stage + static_cast<unsigned>(p * Tile::kPanelBytes), x, (c * Tile::kPanels + p) * 64, 0,
                 own.full, at);
      at.next(Tile::kStages);
    }
  });
}

// Writes this block's part of the sums that the blocks of its cluster have.
template <class Tile>
__device__ __forceinline__ void store_part(const BlockLinearArguments& a, float* sums, int64_t n0) {
  const int part = cluster_rank();
  for (int i = static_cast<int>(threadIdx.x) + part * Tile::kConsumers; i < Tile::kColumns * Tile::kRows;
       i += Tile::kConsumers * Tile::kParts) {
    const int m = i / Tile::kRows, n = i % Tile::kRows;
    float sum = 0;
#pragma unroll
    for (int p = 0; p < Tile::kParts; ++p) sum += map_to_block(sums, p)[m * Tile::kSumPitch + n];
    if (m < a.M && n0 + n < a.N) a.to.store(m, n0 + n, sum);
  }
}

// A warp that multiplies.
template <class F, class T, class Tile>
__device__ __forceinline__ void multiply_few_rows(const FewRowsWork<Tile>& own,
                                                  const BlockLinearArguments& a) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int across = warp % Tile::kAcross, deep = warp / Tile::kAcross;
  float* const sums = reinterpret_cast<float*>(shared_pointer(own.shared + Tile::kSumsAt));
  unsigned first = 0;  // the number of the tile's first chunk
  const int chunks = own.tiles.end - own.tiles.begin;
  own.tiles.for_each([&](int64_t tile) {
    const int64_t n0 = tile * Tile::kRows;
    float sum[2][Tile::kTiles][4] = {};
#pragma unroll 1
    for (int c = deep; c < chunks; c += Tile::kDeep) {
      const RingPlace at = place_of<Tile::kStages>(first + static_cast<unsigned>(c));
      own.full.wait(at);
      multiply_chunk<F, T, Tile>(sum, own.shared + static_cast<unsigned>(at.place * Tile::kStageBytes),
                                 across);
      __syncwarp();
      if (lane == 0) own.empty.arrive(at);
    }
    first += static_cast<unsigned>(chunks);
    for (int turn = 0; turn < Tile::kDeep; ++turn) {
      if (deep == turn) {
#pragma unroll
        for (int i = 0; i < 2; ++i) add_sums<Tile>(sums, sum[i], across * 32 + i * 16 + lane / 4, turn == 0);
      }
      sync_threads_of<Tile::kConsumers>(1);
    }
    if constexpr (Tile::kParts > 1) {
      cluster_sync();
      store_part<Tile>(a, sums, n0);
      cluster_sync();  // the other blocks have read these sums
    } else {
      store_sums<Tile, Tile::kConsumers>(a, sums, 0, n0);
      sync_threads_of<Tile::kConsumers>(1);
    }
  });
}

template <class F, class T, class Tile>
static __global__ void __launch_bounds__(Tile::kThreads, 1)
    block_few_rows_kernel(const __grid_constant__ BlockLinearArguments a, const __grid_constant__ TensorMap x,
                          const __grid_constant__ TensorMap weights, int64_t tiles) {
  if constexpr (kHasWarpgroups) {
    __shared__ StageState full[Tile::kStages], empty[Tile::kStages];
    const FewRowsWork<Tile> own{StageBarriers(full),
                                StageBarriers(empty),
                                aligned_shared_memory(),
                                {tiles, static_cast<int>(ceil_div(a.blocks, Tile::kBlocks))}};
    if (threadIdx.x == 0) {
      own.full.init(Tile::kStages, 1), own.empty.init(Tile::kStages, Tile::kAcross);
      publish_barriers();
    }
    __syncthreads();
    if (threadIdx.x < Tile::kConsumers) {
      multiply_few_rows<F, T, Tile>(own, a);
    } else {
      if (threadIdx.x == Tile::kConsumers) fetch_few_rows<Tile>(own, x, weights);
      if constexpr (Tile::kParts > 1) {
        __syncwarp();
        cluster_sync(), cluster_sync();  // those of multiply_few_rows()
      }
    }
  } else {
    (void)a, (void)x, (void)weights, (void)tiles;
  }
}

// --- launchers ---

// Launches a kernel whose blocks have `tiles` tiles as SharedTiles; `more` are its last arguments. Returns
// false if the device has too little shared memory.
template <class F, class T, class Tile, class Kernel, class... More>
bool launch_shared_tiles(Kernel* kernel, const BlockLinearArguments& a, int64_t tiles, More... more) {
  if (Tile::kBytes > properties(current_device()).shared_per_block_optin) return false;
  LaunchConfig config{dim3(1), dim3(Tile::kThreads), Tile::kBytes, Tile::kParts};
  config.grid.x = static_cast<unsigned>(Tile::kParts > 1 ? tiles * Tile::kParts
                                                         : std::min(tiles, resident_blocks(kernel, config)));
  launch(kernel, config, a,
         make_tensor_map(static_cast<const T*>(a.x), a.M, a.blocks * 32, a.x_row * int64_t{sizeof(T)},
                         Tile::kColumns, 64, true),
         make_tensor_map(reinterpret_cast<const uint16_t*>(a.weight), a.N, a.blocks * (F::kBytes / 2),
                         a.row_bytes, Tile::kRows, Tile::kPitch / 2, false),
         tiles, more...);
  return true;
}

template <class F, class T, class Tile>
bool launch_block_few_rows(const BlockLinearArguments& a) {
  return launch_shared_tiles<F, T, Tile>(block_few_rows_kernel<F, T, Tile>, a, ceil_div(a.N, Tile::kRows));
}
// The time of a tile grows with kAcross + 1.5, as was measured on H200: rows of x are copied once for a tile.
template <class F, class T, int kTiles>
bool launch_block_few_rows_of(const BlockLinearArguments& a) {
  const int64_t multiprocessors = properties(current_device()).multiprocessors;
  const auto cost = [&](int across) {
    return static_cast<double>(ceil_div(ceil_div(a.N, 32 * across), multiprocessors)) * (across + 1.5);
  };
  const double one = cost(1), two = cost(2), four = cost(4);
  constexpr int kDeep = kTiles <= 2 && F::kBytes <= 24 ? 4 : 2;
  if (four <= two && four <= one) return launch_block_few_rows<F, T, FewRowsTile<F, kTiles, 4, kDeep>>(a);
  if constexpr (TINYTORCH_CUDA_SIM == 0) {  // in the emulator a cluster is one block
    if (a.N <= 16 * multiprocessors && a.blocks >= 64)
      return launch_block_few_rows<F, T, FewRowsTile<F, kTiles, 1, 8, 2>>(a);
  }
  if (two <= one) return launch_block_few_rows<F, T, FewRowsTile<F, kTiles, 2, 4>>(a);
  return launch_block_few_rows<F, T, FewRowsTile<F, kTiles, 1, 8>>(a);
}
// At most 32 rows of x; rows of the weights and x are aligned to 16 bytes.
template <class F, class T>
bool launch_block_few_rows(const BlockLinearArguments& a) {
  if (a.M <= 8) return launch_block_few_rows_of<F, T, 1>(a);
  if (a.M <= 16) return launch_block_few_rows_of<F, T, 2>(a);
  return launch_block_few_rows_of<F, T, 4>(a);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
