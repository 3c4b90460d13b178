// Data path of 16-bit heads to the tensor cores: swizzled tiles in shared memory for mma and wgmma, and the
// pipeline that prefetches tiles of two tensors.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/pipelined_barrier.cuh>
#include <tinytorch/backend/cuda/device/warpgroup.cuh>
#include <tinytorch/backend/cuda/kernels/attention/heads.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kTensorThreads = 256, kTensorRows = kTensorThreads / kWarp * 16, kTensorColumns = 64;

// Layout of kRows rows of kHead 16-bit values in shared memory: panels with 128 bytes per row (64 if kHead
// is 32). The 16-byte chunks of a row are permuted by the row's index (swizzling), so that the eight rows of
// an 8 x 8 matrix lie in different banks. wgmma requires this layout. The address must be a multiple of 1024
// bytes.
template <int kHead, int kRows>
struct Tile {
  static constexpr int kChunks = std::min(kHead / 8, 8);  // per row of a panel
  static constexpr unsigned kPanelBytes = kRows * kChunks * 16, kBytes = kRows * kHead * 2;

  static __device__ __forceinline__ unsigned offset(int row, int chunk) {
    const int swizzle = kChunks == 8 ? row % 8 : row / 2 % 4;
    return static_cast<unsigned>(chunk / kChunks) * kPanelBytes +
           static_cast<unsigned>((row * kChunks + (chunk % kChunks ^ swizzle)) * 16);
  }
};

// Source of a tile: the rows of a head in global memory. Each thread copies a fixed 16-byte chunk of some
// rows.
template <class T, int kHead>
class RowSource {
 public:
  __device__ __forceinline__ RowSource(const Heads<const T>& x, int batch, int head, int D)
      : row_bytes_(static_cast<unsigned>(x.row) * 2), exists_(chunk() * 8 < D) {
    set_head(x, batch, head);
  }
  __device__ __forceinline__ void set_head(const Heads<const T>& x, int batch, int head) {
    mine_ = reinterpret_cast<const unsigned char*>(x.place(batch, head, row(), chunk() * 8));
  }
  // Starts the copy of rows r0, r0 + 1, ... into a tile, by all threads of the block; rows from `end` on
  // become zeros.
  template <int kRows>
  __device__ __forceinline__ void fetch(unsigned tile, int r0, int end) const {
    using To = Tile<kHead, kRows>;
    const unsigned first = tile + To::offset(row(), chunk());
#pragma unroll
    for (int i = 0; i < kRows; i += kStep) {
      if (kRows % kStep != 0 && row() + i >= kRows) break;
      copy_async(first + static_cast<unsigned>(i) * To::kChunks * 16,
                 mine_ + static_cast<uint64_t>(static_cast<unsigned>(r0 + i)) * row_bytes_,
                 exists_ && r0 + i + row() < end);
    }
  }

 private:
  static constexpr int kChunks = kHead / 8,
                       kStep = kTensorThreads / kChunks;  // row distance between two copies of a thread
  static_assert(kStep % 8 == 0, "all rows of a thread must have the same swizzle");
  static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x) / kChunks; }
  static __device__ __forceinline__ int chunk() { return static_cast<int>(threadIdx.x) % kChunks; }
  const unsigned char* mine_;
  unsigned row_bytes_;
  bool exists_;
};

// Software pipeline of tiles of two tensors. Iteration i uses tile i while tiles i + 1 to i + kPrefetch are
// being copied. With four stages (kPrefetch = 2) the barrier has separate arrive and wait, so warps may be
// one iteration apart and the products of one warpgroup overlap with the softmax of the other. With two
// stages all warps synchronize at every tile.
template <class T, int kHead, int kStages>
struct TilePipeline {
  static constexpr int kPrefetch = kStages / 2;
  static constexpr bool kSplitBarrier = kPrefetch == 2;
  static constexpr unsigned kTileBytes = Tile<kHead, kTensorColumns>::kBytes,
                            kBytes = 2 * kStages * kTileBytes;
  unsigned address;
  RowSource<T, kHead> x, y;
  int end;  // number of rows of x and y
  PipelinedBarrier barrier;

  __device__ __forceinline__ unsigned first(unsigned tile) const {
    return address + tile % kStages * (2 * kTileBytes);
  }
  __device__ __forceinline__ unsigned second(unsigned tile) const { return first(tile) + kTileBytes; }
  __device__ __forceinline__ void fetch_first(unsigned tile, int r0) const {
    x.template fetch<kTensorColumns>(first(tile), r0, end);
  }
  __device__ __forceinline__ void fetch_second(unsigned tile, int r0) const {
    y.template fetch<kTensorColumns>(second(tile), r0, end);
  }
  __device__ __forceinline__ void fetch(unsigned tile, int r0) const {
    fetch_first(tile, r0), fetch_second(tile, r0);
  }
  // Begins the iteration of `tile`: what was fetched kPrefetch iterations ago is visible to all threads, and
  // the stage of tile + kPrefetch is free.
  __device__ __forceinline__ void wait(unsigned tile) const {
    if (kSplitBarrier && tile > 0) barrier.wait(tile - 1);
    commit_copies();
    wait_for_copies<0>();
    fence_async_proxy();
    if (!kSplitBarrier || tile == 0) __syncthreads();
    if (kSplitBarrier) barrier.arrive();
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
