// Products with a weight of dense blocks of 64 x 64 (contract: backend/cpu/spmm.hpp), by warpgroups (wgmma,
// compute capability 9.0).
//
// A block has two rows of blocks, one of each warpgroup, and 64 or 256 rows of x. A step is one column of
// blocks that at least one of the two rows has: one thread starts the copies of that part of x and of the one
// or two blocks (tensor_map.cuh), and a warpgroup whose row has no block there passes the step on. Two more
// warps find out which columns the rows of the next tile have. Columns without a block are never read. Each
// sum runs over the blocks in order.
//
// Limit: 2 M 64^2 operations for each block at the speed of wgmma. x comes from the L2 cache once for each
// pair of rows of blocks, which limits it before: with half of the blocks, 8.5 TB/s are 0.75 of that speed.
// The two rows share fewer of their columns, the fewer blocks there are.
// Source: Gray, Radford and Kingma, "GPU kernels for block-sparse weights", 2017.
#pragma once

#include <tinytorch/backend/cuda/device/tensor_map.cuh>
#include <tinytorch/backend/cuda/device/transposed_result.cuh>
#include <tinytorch/backend/cuda/device/warpgroup_wide.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/int8_tiles.cuh>
#include <tinytorch/backend/cuda/kernels/rows/padded.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct BsrGroupProduct {
  const int32_t* columns_of;
  const int64_t* offsets;
  int64_t M, N;
  int block_rows, block_columns;
};

// 64 kPanels rows of x; kStages steps are in shared memory.
template <int kPanels_, int kStages_>
struct BsrGroup {
  static constexpr int kPanels = kPanels_, kStages = kStages_, kAcross = 2;
  static constexpr int kConsumers = 128 * kAcross, kThreads = kConsumers + 128;
  static constexpr int kColumns = 64 * kPanels, kXBytes = kColumns * 128, kBlockBytes = 64 * 128;
  static constexpr int kStageBytes = kXBytes + kAcross * kBlockBytes;
  static constexpr int kMostColumns = 2048;  // of blocks
  static constexpr unsigned kResultAt = kStages * kStageBytes;
  static constexpr unsigned kBytes = kResultAt + kAcross * kTransposedBytes + kTileAlignment;
};

// The columns of blocks that the two rows of a tile have, and the number of each row's first block. There are
// two sets, for this tile and the next.
template <class Group>
struct BsrColumns {
  unsigned char present[2][Group::kAcross][Group::kMostColumns];
  int64_t first[2][Group::kAcross];
};

template <class Group>
struct BsrTiles {
  const BsrGroupProduct& p;
  TileOrder order;
  StageBarriers full, empty;
  unsigned* wanted;  // for each stage: bit w if warpgroup w has a block in it; kLast behind the last step
  BsrColumns<Group>& columns;
  unsigned shared;

  static constexpr unsigned kLast = 4;
  static constexpr int kNamed = 8, kFinders = 3 * kWarp;  // the barrier of the producer's warps

  template <class F>
  __device__ __forceinline__ void for_each(F&& f) const {
    for (int64_t tile = blockIdx.x; tile < order.count(); tile += gridDim.x) {
      int64_t m, n;
      order.place(tile, m, n);
      f(m * Group::kColumns, n * Group::kAcross);  // first row of x, first row of blocks
    }
  }
};

// Warp `row` of the two that find the columns of the rows of blocks.
template <class Group>
__device__ __forceinline__ void find_columns(const BsrTiles<Group>& tiles, int row) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int buffer = 0;
  tiles.for_each([&](int64_t, int64_t block_row) {
    unsigned char* const present = tiles.columns.present[buffer][row];
    const int64_t at = block_row + row;
    const bool exists = at < tiles.p.block_rows;
    const int64_t first = exists ? tiles.p.offsets[at] : 0, last = exists ? tiles.p.offsets[at + 1] : 0;
    for (int i = lane; i < ceil_div(tiles.p.block_columns, kWarp) * kWarp; i += kWarp) present[i] = 0;
    __syncwarp();
    for (int64_t i = first + lane; i < last; i += kWarp) present[tiles.p.columns_of[i]] = 1;
    if (lane == 0) tiles.columns.first[buffer][row] = first;
    sync_threads_of<BsrTiles<Group>::kFinders>(BsrTiles<Group>::kNamed);
    buffer ^= 1;
  });
}

// The warp whose first lane starts the copies.
template <class Group>
__device__ __forceinline__ void fetch_blocks_of_tiles(const BsrTiles<Group>& tiles, const TensorMap& x,
                                                      const TensorMap& values) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  RingPlace at;
  int buffer = 0;
  tiles.for_each([&](int64_t m0, int64_t) {
    sync_threads_of<BsrTiles<Group>::kFinders>(BsrTiles<Group>::kNamed);
    int next[Group::kAcross];
    for (int w = 0; w < Group::kAcross; ++w) next[w] = static_cast<int>(tiles.columns.first[buffer][w]);
    for (int first = 0; first < tiles.p.block_columns; first += kWarp) {
      const auto& present = tiles.columns.present[buffer];
      const unsigned mine = present[0][first + lane] | static_cast<unsigned>(present[1][first + lane]) << 1;
      for (unsigned some = __ballot_sync(0xffffffffu, mine != 0); some != 0; some &= some - 1) {
        const int column = __ffs(static_cast<int>(some)) - 1;
        const unsigned wanted = __shfl_sync(0xffffffffu, mine, column);
        if (lane == 0) {
          tiles.empty.wait_for_place(at);
          tiles.wanted[at.place] = wanted;
          tiles.full.expect(at, static_cast<unsigned>(Group::kXBytes + Group::kBlockBytes * __popc(wanted)));
          const unsigned stage = tiles.shared + static_cast<unsigned>(at.place * Group::kStageBytes);
          copy_box(stage, x, (first + column) * 64, static_cast<int>(m0), tiles.full, at);
#pragma unroll
          for (int w = 0; w < Group::kAcross; ++w) {
            if ((wanted >> w & 1u) != 0)
              copy_box(stage + static_cast<unsigned>(Group::kXBytes + w * Group::kBlockBytes), values, 0,
                       next[w]++ * 64, tiles.full, at);
          }
        }
        at.next(Group::kStages);
      }
    }
    if (lane == 0) {
      tiles.empty.wait_for_place(at);
      tiles.wanted[at.place] = BsrTiles<Group>::kLast;
      tiles.full.arrive(at);
    }
    at.next(Group::kStages);
    buffer ^= 1;
  });
}

// A consumer warpgroup.
template <class T, class Group>
__device__ __forceinline__ void multiply_blocks(const BsrTiles<Group>& tiles, const LinearResult& to) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, group = static_cast<int>(threadIdx.x) / 128;
  RingPlace at;
  tiles.for_each([&](int64_t m0, int64_t block_row) {
    float sum[Group::kPanels * 8][4] = {};
    fence_operands(sum);
    RingPlace before;
    bool pending = false;  // products that read stage `before` may be incomplete
    const auto release = [&](RingPlace stage) {
      __syncwarp();
      if (lane == 0) tiles.empty.arrive(stage);
    };
    for (unsigned wanted = 0; wanted != BsrTiles<Group>::kLast; at.next(Group::kStages)) {
      tiles.full.wait(at);
      wanted = tiles.wanted[at.place];
      if ((wanted >> group & 1u) == 0) {
        // The producer may need the stage before to go on, so it is not held while other rows have blocks.
        if (pending) wgmma_wait<0>(), release(before);
        pending = false;
        release(at);
        continue;
      }
      const unsigned stage = tiles.shared + static_cast<unsigned>(at.place * Group::kStageBytes);
      const SharedMatrix x(stage),
          w(stage + static_cast<unsigned>(Group::kXBytes + group * Group::kBlockBytes));
      wgmma_fence();
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        if constexpr (Group::kPanels == 1) {
          multiply_group<T>(sum, w.after(32 * k), x.after(32 * k), true);
        } else {
          multiply_wide<T>(sum, w.after(32 * k), x.after(32 * k));
        }
      }
      wgmma_commit();
      wgmma_wait<1>();
      if (pending) release(before);
      pending = true, before = at;
    }
    wgmma_wait<0>();
    fence_operands(sum);
    write_transposed<T>(to,
                        {m0, (block_row + group) * 64, tiles.p.M, tiles.p.N, group,
                         tiles.shared + Group::kResultAt + static_cast<unsigned>(group) * kTransposedBytes},
                        sum);
  });
}

template <class T, class Group>
static __global__ void __launch_bounds__(Group::kThreads, 1)
    spmm_bsr_groups_kernel(const __grid_constant__ BsrGroupProduct p, const __grid_constant__ TensorMap x,
                           const __grid_constant__ TensorMap values, const __grid_constant__ LinearResult to,
                           TileOrder order) {
  if constexpr (kHasWarpgroups) {
    __shared__ StageState full[Group::kStages], empty[Group::kStages];
    __shared__ unsigned wanted[Group::kStages];
    __shared__ BsrColumns<Group> columns;
    const BsrTiles<Group> tiles{p,      order,   StageBarriers(full),    StageBarriers(empty),
                                wanted, columns, aligned_shared_memory()};
    if (threadIdx.x == 0) {
      tiles.full.init(Group::kStages, 1);
      tiles.empty.init(Group::kStages, Group::kConsumers / kWarp);
      publish_barriers();
    }
    __syncthreads();
    const int role = (static_cast<int>(threadIdx.x) - Group::kConsumers) / kWarp;
    if (threadIdx.x < Group::kConsumers) {
      take_registers<232>();
      multiply_blocks<T, Group>(tiles, to);
    } else {
      give_registers<40>();
      if (role == 0) fetch_blocks_of_tiles<Group>(tiles, x, values);
      if (role == 1 || role == 2) find_columns<Group>(tiles, role - 1);
    }
  } else {
    (void)p, (void)x, (void)values, (void)to, (void)order;
  }
}

// --- launchers ---

template <class T, class Group>
void launch_spmm_bsr_groups(const BsrView& w, const PaddedRows<T>& x, int64_t M, const LinearResult& to) {
  const BsrGroupProduct p{w.columns_of,
                          w.offsets,
                          M,
                          w.rows,
                          static_cast<int>(w.block_rows()),
                          static_cast<int>(w.block_columns())};
  const TileOrder order{ceil_div(M, Group::kColumns), ceil_div(w.block_rows(), Group::kAcross), 8};
  LaunchConfig config{dim3(1), dim3(Group::kThreads), Group::kBytes};
  auto* const kernel = spmm_bsr_groups_kernel<T, Group>;
  config.grid.x = static_cast<unsigned>(std::min(order.count(), resident_blocks(kernel, config)));
  launch(kernel, config, p,
         make_tensor_map(x.data(), M, x.columns(), x.row() * int64_t{sizeof(T)}, Group::kColumns, 64, true),
         make_tensor_map(static_cast<const T*>(w.values), w.blocks * 64, 64, 128, 64, 64, true), to, order);
}

// Returns false if this kernel cannot multiply these operands.
template <class T>
bool multiply_bsr_by_groups(const BsrView& w, const PaddedRows<T>& x, int64_t M, const LinearResult& to) {
  if (!has_warpgroups() || w.block != 64 || w.blocks == 0 || w.block_columns() > BsrGroup<1, 8>::kMostColumns)
    return false;
  if (M <= 64) {
    launch_spmm_bsr_groups<T, BsrGroup<1, 8>>(w, x, M, to);
  } else {
    launch_spmm_bsr_groups<T, BsrGroup<4, 4>>(w, x, M, to);
  }
  return true;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
