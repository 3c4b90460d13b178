// Products of a 2:4 sparse weight with many rows of x, by sparse warpgroups (wgmma.mma_async.sp, compute
// capability 9.0).
//
// The weights are operand A. Each lane loads its own part of their strips (backend/strips24.hpp) from
// the L2 cache into registers, three steps ahead; so shared memory, whose speed limits the products, holds
// only x. A step is 64 numbers of a row of x. One thread starts the copies of the steps (tensor_map.cuh); the
// two blocks of a cluster have other rows of the weight and the same rows of x, of which each copies a half
// to both: without that, the L2 cache would have to deliver 9 TB/s. A block has 128 rows of the weight, 64 of
// each warpgroup, and 64, 128 or 256 rows of x, and computes one such tile after the other.
//
// Limit: M N K multiply-adds count half, so 2 x 989 TFLOP/s on H100; shared memory allows 0.64 of this, as
// each warpgroup reads all of x's step, which was also written once.
#pragma once

#include <tinytorch/backend/cuda/device/cluster.cuh>
#include <tinytorch/backend/cuda/device/strips24.cuh>
#include <tinytorch/backend/cuda/device/tensor_map.cuh>
#include <tinytorch/backend/cuda/device/transposed_result.cuh>
#include <tinytorch/backend/cuda/device/warpgroup_sparse.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/int8_tiles.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// 64 kPanels rows of x; kStages steps of x are in shared memory; kBlocks blocks are a cluster.
template <int kPanels_, int kStages_, int kBlocks_>
struct SparseGroup {
  static constexpr int kPanels = kPanels_, kStages = kStages_, kBlocks = kBlocks_, kAcross = 2;
  static constexpr int kConsumers = 128 * kAcross, kThreads = kConsumers + 128;
  static constexpr int kRows = 64 * kAcross, kColumns = 64 * kPanels;
  static constexpr int kStepBytes = kColumns * 128, kSlice = kColumns / kBlocks;  // rows that a block copies
  static constexpr int kPartsAhead = 3;  // of the strips, in registers
  static constexpr unsigned kResultAt = kStages * kStepBytes;
  static constexpr unsigned kBytes = kResultAt + kAcross * kTransposedBytes + kTileAlignment;
};

// The barriers of a block, and where the tiles of its cluster are.
template <class Group>
struct SparseTiles {
  TileOrder order;
  StageBarriers full, empty;
  unsigned shared;
  int rank = 0;

  __device__ __forceinline__ int64_t first() const { return blockIdx.x / Group::kBlocks; }
  __device__ __forceinline__ int64_t step() const { return gridDim.x / Group::kBlocks; }
  // The first row of x and of the weight.
  __device__ __forceinline__ void place(int64_t tile, int64_t& m0, int64_t& n0) const {
    order.place(tile, m0, n0);
    m0 *= Group::kColumns, n0 = (n0 * Group::kBlocks + rank) * Group::kRows;
  }
};

// The producer: copies this block's part of each step to all blocks of the cluster.
template <class Group>
__device__ __forceinline__ void fetch_sparse_tiles(const SparseTiles<Group>& tiles, const TensorMap& x,
                                                   int parts) {
  RingPlace at;
  for (int64_t tile = tiles.first(); tile < tiles.order.count(); tile += tiles.step()) {
    int64_t m0, n0;
    tiles.place(tile, m0, n0);
    const int row = static_cast<int>(m0) + tiles.rank * Group::kSlice;
    for (int i = 0; i < parts; ++i) {
      tiles.empty.wait_for_place(at);
      tiles.full.expect(at, Group::kStepBytes);
      copy_box_to_cluster<Group::kBlocks>(
          tiles.shared +
              static_cast<unsigned>(at.place * Group::kStepBytes + tiles.rank * Group::kSlice * 128),
          x, i * 64, row, tiles.full, at);
      at.next(Group::kStages);
    }
  }
}

// Loads a warp's strip in parts. After the last part, and beyond the last strip, it loads the last part
// again, whose products are ignored, so that no load is conditional: a register of an operand that several
// instructions may set makes the compiler serialize the products.
class WarpStrip {
 public:
  __device__ __forceinline__ void open(const StripsProduct& p, int64_t n0) {
    const int64_t strip = min(n0 / Strips24::kRows + threadIdx.x / kWarp, (p.N - 1) / Strips24::kRows);
    at_ = p.strips + strip * p.parts * Strips24::kPartBytes;
    left_ = p.parts;
  }
  __device__ __forceinline__ void next(PartOfStrip& part) {
    part.load(at_);
    --left_;
    at_ += left_ > 0 ? Strips24::kPartBytes : 0;
  }

 private:
  const uint8_t* at_;
  int left_;
};

// A consumer warpgroup.
template <class T, class Group>
__device__ __forceinline__ void multiply_sparse_tiles(const SparseTiles<Group>& tiles, const StripsProduct& p,
                                                      const LinearResult& to) {
  constexpr int kParts = Group::kPartsAhead + 1;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, group = static_cast<int>(threadIdx.x) / 128;
  const auto release = [&](RingPlace at) {
    __syncwarp();
    if (lane < Group::kBlocks) tiles.empty.arrive_at(static_cast<unsigned>(lane), at);
  };
  WarpStrip strip;
  PartOfStrip part[kParts];
  const auto open = [&](int64_t tile) {
    int64_t m0, n0;
    tiles.place(tile, m0, n0);
    strip.open(p, n0);
#pragma unroll
    for (int i = 0; i + 1 < kParts; ++i) strip.next(part[i]);
  };
  RingPlace at, before;
  if (tiles.first() < tiles.order.count()) open(tiles.first());
#pragma unroll 1
  for (int64_t tile = tiles.first(); tile < tiles.order.count(); tile += tiles.step()) {
    float sum[Group::kPanels * 8][4] = {};
    fence_operands(sum);  // else the zeros are set between the products, which serializes these
    bool pending = false;
    // `now` has the parts of this step; `later` those of the step before, and then of one three steps ahead.
    const auto step = [&](PartOfStrip& now, PartOfStrip& later) {
      tiles.full.wait(at);
      const SharedMatrix rows(tiles.shared + static_cast<unsigned>(at.place * Group::kStepBytes));
      wgmma_fence();
      multiply_sparse<T, 0>(sum, now.kept[0], now.places, rows);
      multiply_sparse<T, 1>(sum, now.kept[1], now.places, rows.after(64));
      wgmma_commit();
      wgmma_wait<1>();  // the products of the step before are complete
      if (pending) release(before);
      pending = true, before = at;
      strip.next(later);
      at.next(Group::kStages);
    };
    // The loop is unrolled, so that register numbers are constants.
#pragma unroll 1
    for (int i = 0; i < p.parts; i += kParts) {
#pragma unroll
      for (int j = 0; j < kParts; ++j) {
        if (j > 0 && i + j >= p.parts) break;
        step(part[j], part[(j + kParts - 1) % kParts]);
      }
    }
    wgmma_wait<0>();
    fence_operands(sum);
    release(before);
    if (tile + tiles.step() < tiles.order.count()) open(tile + tiles.step());
    TransposedPart mine{
        0,   0,     p.M,
        p.N, group, tiles.shared + Group::kResultAt + static_cast<unsigned>(group) * kTransposedBytes};
    tiles.place(tile, mine.m0, mine.n0);
    mine.n0 += group * 64;
    write_transposed<T>(to, mine, sum);
  }
}

template <class T, class Group>
static __global__ void __launch_bounds__(Group::kThreads, 1)
    gemm_sparse24_kernel(const __grid_constant__ StripsProduct p, const __grid_constant__ TensorMap x,
                         const __grid_constant__ LinearResult to, TileOrder order) {
  if constexpr (kHasWarpgroups) {
    __shared__ StageState full[Group::kStages], empty[Group::kStages];
    SparseTiles<Group> tiles{order, StageBarriers(full), StageBarriers(empty), aligned_shared_memory()};
    if constexpr (Group::kBlocks > 1) tiles.rank = cluster_rank();
    if (threadIdx.x == 0) {
      tiles.full.init(Group::kStages, 1);
      tiles.empty.init(Group::kStages, Group::kConsumers / kWarp * Group::kBlocks);
      publish_barriers();
    }
    Group::kBlocks > 1 ? cluster_sync() : __syncthreads();
    if (threadIdx.x >= Group::kConsumers) {
      give_registers<40>();
      if (threadIdx.x == Group::kConsumers) fetch_sparse_tiles<Group>(tiles, x, p.parts);
    } else {
      take_registers<232>();
      multiply_sparse_tiles<T, Group>(tiles, p, to);
    }
    if constexpr (Group::kBlocks > 1)
      cluster_sync();  // the other blocks still arrive at this block's barriers
  } else {
    (void)p, (void)x, (void)to, (void)order;
  }
}

// --- launchers ---

template <class T, class Group>
void launch_gemm_sparse24(const StripsProduct& p, const LinearResult& to) {
  const TileOrder order{ceil_div(p.M, Group::kColumns), ceil_div(p.N, Group::kRows * Group::kBlocks), 8};
  LaunchConfig config{dim3(1), dim3(Group::kThreads), Group::kBytes, Group::kBlocks};
  auto* const kernel = gemm_sparse24_kernel<T, Group>;
  config.grid.x =
      static_cast<unsigned>(std::min(order.count() * Group::kBlocks, resident_blocks(kernel, config)));
  const TensorMap x = make_tensor_map(static_cast<const T*>(p.x), p.M, p.K, p.x_row * int64_t{sizeof(T)},
                                      Group::kSlice, 64, true);
  launch(kernel, config, p, x, to, order);
}
// The largest tile that keeps most of the device busy.
template <class T, int kBlocks>
void launch_gemm_sparse24(const StripsProduct& p, const LinearResult& to) {
  const int64_t across = ceil_div(p.N, 128), wanted = properties(current_device()).multiprocessors * 3 / 4;
  if (p.M > 128 && ceil_div(p.M, 256) * across >= wanted)
    return launch_gemm_sparse24<T, SparseGroup<4, 5, kBlocks>>(p, to);
  if (p.M > 64 && ceil_div(p.M, 128) * across >= wanted)
    return launch_gemm_sparse24<T, SparseGroup<2, 8, kBlocks>>(p, to);
  launch_gemm_sparse24<T, SparseGroup<1, 12, kBlocks>>(p, to);
}
template <class T>
void launch_gemm_sparse24(const StripsProduct& p, const LinearResult& to) {
  if constexpr (TINYTORCH_CUDA_SIM == 0) {
    if (p.N > 128) return launch_gemm_sparse24<T, 2>(p, to);
  }
  launch_gemm_sparse24<T, 1>(p, to);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
