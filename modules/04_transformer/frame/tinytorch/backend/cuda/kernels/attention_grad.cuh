// Gradients of attention by CUDA (contract: backend/cpu/attention_grad.hpp).
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.16.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/attention/heads.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kGradTile = 16;  // rows of a block, and rows that pass by in a tile
inline constexpr int kGradThreads = kGradTile * kGradTile;
inline constexpr int kLongestGradHead = 256, kGradColumns = kLongestGradHead / kGradTile;

// A block has kGradTile rows (queries or keys) of one head, from `first` on. Thread number i * kGradTile + j
// belongs to row first + i: of the pairs it has the tile's row j, of the results columns j, j + kGradTile,
// ...
struct GradPlace {
  int64_t b, h, first, row;
  int i, j;
  __device__ GradPlace(int64_t rows, int64_t heads)
      : i(static_cast<int>(threadIdx.x) / kGradTile), j(static_cast<int>(threadIdx.x) % kGradTile) {
    const int64_t tiles = ceil_div(rows, kGradTile), head = blockIdx.x / tiles;
    b = head / heads;
    h = head % heads;
    first = blockIdx.x % tiles * kGradTile;
    row = first + i;
  }
};

// tile[row][d] = element d of row first + row of head (b, h); zeros from row `end` on. By the whole block.
// Rows begin D + 1 places apart, so that a column of a tile lies in different banks of shared memory.
template <class C>
__device__ void bring_grad_tile(C* tile, const HeadElements<C>& x, int64_t b, int64_t h, int64_t first,
                                int64_t end, int D) {
  for (int k = static_cast<int>(threadIdx.x); k < kGradTile * D; k += kGradThreads) {
    const int row = k / D, d = k % D;
    tile[row * (D + 1) + d] = first + row < end ? x.read(x.place(b, h, first + row, d)) : C(0);
  }
}

// The contribution of a pair of a query and a key.
template <class C>
struct PairGrad {
  C p, ds;  // p: after dropout
};

// The operands of both kernels.
template <class C>
struct AttentionGradCall {
  HeadElements<C> dout, q, k, v;
  const C *lse, *delta;  // [B, H, T]
  AttentionCall call;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/attention_grad.cuh>
