// The product of 8-bit integers by warpgroups (wgmma, compute capability 9.0), for large matrices.
//
// A block computes a tile of 128 x 256: two warpgroups have 64 rows each and all columns, so that a slab of
// the second operand is read from shared memory twice, and one of the first once. Four stages of shared
// memory: the products of one slab run while those of the slab before it end, and copies run two slabs ahead.
// All threads copy, as there are only 12 pieces of 16 bytes to a thread and slab. Limit: the tensor cores; a
// tile loads 48 bytes per clock from the L2 cache at their full rate.
#pragma once

#include <tinytorch/backend/cuda/device/warpgroup_bytes.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/int8_tiles.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct GroupByteTile {
  static constexpr int kRows = 128, kColumns = 256, kThreads = 256, kStages = 4;
  static constexpr unsigned kStageBytes = (kRows + kColumns) * kSlab,
                            kBytes = kStages * kStageBytes + kTileAlignment;
};

// sum += the products of one slab, queued as one group.
__device__ __forceinline__ void queue_slab(int (&sum)[32][4], unsigned x, unsigned w) {
  const SharedMatrix a(x), b(w);
  wgmma_fence();
#pragma unroll
  for (unsigned k = 0; k < kSlab; k += 32) multiply_bytes(sum, a.after(k), b.after(k));
  wgmma_commit();
}

template <class Out>
static __global__ void __launch_bounds__(GroupByteTile::kThreads, 1)
    gemm_int8_groups(const __grid_constant__ ByteProduct p, const __grid_constant__ ScaledSums<Out> to,
                     TileOrder order) {
  using Tile = GroupByteTile;
  if constexpr (kHasWarpgroups) {
    int64_t m0, n0;
    order.place(m0, n0);
    m0 *= Tile::kRows, n0 *= Tile::kColumns;
    const ByteRows<Tile::kRows, Tile::kThreads> x(p.x, p.M, m0, p.x_row, p.K);
    const ByteRows<Tile::kColumns, Tile::kThreads> w(p.w, p.N, n0, p.w_row, p.K);
    const unsigned shared = aligned_shared_memory();
    const int slabs = ceil_div(p.K, kSlab);
    const auto stage = [&](int slab) {
      return shared + static_cast<unsigned>(slab % Tile::kStages) * Tile::kStageBytes;
    };
    const auto fetch = [&](int slab) {
      if (slab < slabs) {
        x.fetch(stage(slab), slab * kSlab);
        w.fetch(stage(slab) + x.kBytes, slab * kSlab);
      }
      commit_copies();
    };
    constexpr int kAhead = 2;
    for (int slab = 0; slab < kAhead; ++slab) fetch(slab);
    const int warp = static_cast<int>(threadIdx.x) / kWarp, group = warp / 4;
    int sum[1][32][4] = {};
    for (int slab = 0; slab < slabs; ++slab) {
      wait_for_copies<kAhead - 1>();
      fence_async_proxy();
      __syncthreads();  // the slab is there; both groups have waited for the products of slab - 2
      queue_slab(sum[0], stage(slab) + static_cast<unsigned>(group * 64 * kSlab), stage(slab) + x.kBytes);
      fetch(slab + kAhead);  // into the stage of slab - 2
      wgmma_wait<1>();
    }
    wgmma_wait<0>();
    fence_sums(sum[0]);
    wait_for_copies<0>();
    __syncthreads();
    int* const space = dynamic_shared<int>() + warp * 16 * (Tile::kColumns + 8);
    write_sums<Tile::kColumns, 1>(to, space, sum, m0 + warp * 16, n0);
  } else {
    (void)p, (void)to, (void)order;
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
