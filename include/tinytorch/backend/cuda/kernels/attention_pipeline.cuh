// Rows of 16-bit heads on their way to tensor cores: tiles of them in shared memory, as warps' and
// warpgroups' products want them, and the queue in which tiles of two tensors pass by a block.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/pipelined_barrier.cuh>
#include <tinytorch/backend/cuda/device/warpgroup.cuh>
#include <tinytorch/backend/cuda/kernels/attention_heads.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kTensorThreads = 256, kTensorRows = kTensorThreads / kWarp * 16, kTensorColumns = 64;

// kRows rows of kHead 16-bit values in shared memory, in panels of 128 bytes a row (64 where that is all of
// it). Pieces of 16 bytes trade places from row to row, so that the eight rows of a matrix lie in different
// banks; and as warpgroups' products want it. Begins at a multiple of 1024 bytes.
template <int kHead, int kRows>
struct Tile {
  static constexpr int kPieces = std::min(kHead / 8, 8);  // of a row of a panel
  static constexpr unsigned kPanelBytes = kRows * kPieces * 16, kBytes = kRows * kHead * 2;

  static __device__ __forceinline__ unsigned place(int row, int piece) {
    const int turn = kPieces == 8 ? row % 8 : row / 2 % 4;
    return static_cast<unsigned>(piece / kPieces) * kPanelBytes +
           static_cast<unsigned>((row * kPieces + (piece % kPieces ^ turn)) * 16);
  }
};

// Rows of a head in memory, for a block that copies tiles of them: where this thread's pieces of 16 bytes
// lie.
template <class T, int kHead>
class RowSource {
 public:
  __device__ __forceinline__ RowSource(const Heads<const T>& x, int batch, int head, int D)
      : row_bytes_(static_cast<unsigned>(x.row) * 2), exists_(piece() * 8 < D) {
    to_head(x, batch, head);
  }
  __device__ __forceinline__ void to_head(const Heads<const T>& x, int batch, int head) {
    mine_ = reinterpret_cast<const unsigned char*>(x.place(batch, head, row(), piece() * 8));
  }
  // Rows r0 ... to a tile, zeros from row `end` on; by the whole block, not awaited.
  template <int kRows>
  __device__ __forceinline__ void fetch(unsigned tile, int r0, int end) const {
    using To = Tile<kHead, kRows>;
    const unsigned first = tile + To::place(row(), piece());
#pragma unroll
    for (int i = 0; i < kRows; i += kStep) {
      if (kRows % kStep != 0 && row() + i >= kRows) break;
      copy_async(first + static_cast<unsigned>(i) * To::kPieces * 16,
                 mine_ + static_cast<uint64_t>(static_cast<unsigned>(r0 + i)) * row_bytes_,
                 exists_ && r0 + i + row() < end);
    }
  }

 private:
  static constexpr int kPieces = kHead / 8, kStep = kTensorThreads / kPieces;  // rows from a copy to the next
  static_assert(kStep % 8 == 0, "so that pieces trade places alike in all rows of a thread");
  static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x) / kPieces; }
  static __device__ __forceinline__ int piece() { return static_cast<int>(threadIdx.x) % kPieces; }
  const unsigned char* mine_;
  unsigned row_bytes_;
  bool exists_;
};

// Tiles of two tensors that pass by. Each turn uses one, while the kAhead after it are on their way. With
// four places for tiles, two ahead, warps may be a turn apart, and one group's products fill the other's
// pauses; with two places they meet at every tile.
template <class T, int kHead, int kPlaces>
struct PassingTiles {
  static constexpr int kAhead = kPlaces / 2;
  static constexpr bool kLags = kAhead == 2;
  static constexpr unsigned kTileBytes = Tile<kHead, kTensorColumns>::kBytes,
                            kBytes = 2 * kPlaces * kTileBytes;
  unsigned address;
  RowSource<T, kHead> x, y;
  int end;  // of their rows
  PipelinedBarrier barrier;

  __device__ __forceinline__ unsigned first(unsigned turn) const {
    return address + turn % kPlaces * (2 * kTileBytes);
  }
  __device__ __forceinline__ unsigned second(unsigned turn) const { return first(turn) + kTileBytes; }
  __device__ __forceinline__ void fetch_first(unsigned turn, int r0) const {
    x.template fetch<kTensorColumns>(first(turn), r0, end);
  }
  __device__ __forceinline__ void fetch_second(unsigned turn, int r0) const {
    y.template fetch<kTensorColumns>(second(turn), r0, end);
  }
  __device__ __forceinline__ void fetch(unsigned turn, int r0) const {
    fetch_first(turn, r0), fetch_second(turn, r0);
  }
  // Begins a turn: what was asked for up to the turn before is there for all threads, and the place of tile
  // turn + kAhead is free.
  __device__ __forceinline__ void await(unsigned turn) const {
    if (kLags && turn > 0) barrier.wait(turn - 1);
    commit_copies();
    wait_for_copies<0>();
    fence_async_proxy();
    if (!kLags || turn == 0) __syncthreads();
    if (kLags) barrier.arrive();
  }
};

// The block's dynamic shared memory from the next multiple of 1024 on, and how much of it to ask for.
inline constexpr size_t kTileAlignment = 1024;
__device__ __forceinline__ unsigned tile_memory() {
  constexpr unsigned kMask = kTileAlignment - 1;
  return (shared_address(dynamic_shared<unsigned char>()) + kMask) & ~kMask;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
