// Attention by CUDA, forward (contract: backend/cpu/attention.hpp).
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.15.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/kernels/attention/heads.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kQueryTile = 16;  // queries of a block, and keys of a tile
inline constexpr int kPairThreads = kQueryTile * kQueryTile;
inline constexpr int kLongestHead = 256, kColumnsEach = kLongestHead / kQueryTile;

// The place of a thread. A block computes kQueryTile queries of one head, from `first` on. Thread number i *
// kQueryTile + j belongs to query t = first + i. In the scores it has key j of the tile, in the result
// columns j, j + kQueryTile, ... of the row. The 16 threads of a query are neighbouring lanes of one warp.
struct QueryPlace {
  int64_t b, h, first, t;
  int i, j;
  __device__ explicit QueryPlace(const AttentionCall& call)
      : i(static_cast<int>(threadIdx.x) / kQueryTile), j(static_cast<int>(threadIdx.x) % kQueryTile) {
    const int64_t tiles = ceil_div(call.T, kQueryTile), head = blockIdx.x / tiles;
    b = head / call.H;
    h = head % call.H;
    first = blockIdx.x % tiles * kQueryTile;
    t = first + i;
  }
};

// tile[row][d] = element d of row first + row of head (b, h), for kQueryTile rows; zeros from row `end` on.
// By the whole block. A row of the tile has D + 1 places: rows that begin D places apart would lie in the
// same banks of shared memory, and the threads that read one column of 16 rows would wait for each other.
template <class C>
__device__ void bring_tile(C* tile, const HeadElements<C>& x, int64_t b, int64_t h, int64_t first,
                           int64_t end, int D) {
  for (int k = static_cast<int>(threadIdx.x); k < kQueryTile * D; k += kPairThreads) {
    const int row = k / D, d = k % D;
    tile[row * (D + 1) + d] = first + row < end ? x.read(x.place(b, h, first + row, d)) : C(0);
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/attention.cuh>
