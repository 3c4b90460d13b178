// The product of 8-bit integers by tensor cores of single warps (mma m16n8k32), and what it shares with the
// product by warpgroups (gemm/int8_warpgroups.cuh): slabs of the operands in shared memory, the order of the
// tiles, and the scales, bias and activation after the sums.
//
// Both operands are contiguous along the depth, as in x [M, K] W [N, K]^T, so both are copied in the same
// way: cp.async moves slabs of 128 bytes of depth, several slabs ahead. The 16-byte pieces of a row are
// permuted by the row's number (swizzled), so that the eight rows of an ldmatrix lie in different banks. Sums
// are exact in i32. Limit: 2 M N K operations at 1979 TOP/s on H100 and H200; mma reaches about 0.6 of it
// there.
#pragma once

#include <algorithm>
#include <limits>
#include <tinytorch/backend/cuda/device/activation.cuh>
#include <tinytorch/backend/cuda/device/tensor_core.cuh>
#include <tinytorch/backend/cuda/device/unaligned.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/functors.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// x [M, K] and w [N, K] with rows of contiguous bytes, `x_row` and `w_row` bytes apart. The kernels of tensor
// cores need addresses and distances that are multiples of 16, and K, too.
struct ByteProduct {
  const int8_t *x, *w;
  int64_t M, N, x_row, w_row;
  int K;
};

// The epilogue of a product of bytes: out [M, N] = fn(sum row_scale[m] col_scale[n] + bias[n]). An i32 result
// is the sum itself. A null pointer stands for no scale or no bias. A step is 0 if one scale serves all rows
// or columns.
template <class Out>
struct ScaledSums {
  Out* out;
  const float *row_scale, *col_scale, *bias;
  int64_t row_step, col_step;
  Activation fn;
  int64_t M, N;
  bool vectors;  // four neighbouring results begin at a multiple of their size

  struct Columns {
    float scale[4], bias[4];
  };
  // The factors of columns n to n + 3.
  __device__ __forceinline__ Columns columns(int64_t n) const {
    Columns c{};
    if constexpr (!std::is_same_v<Out, int>) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        c.scale[k] = col_scale && n + k < N ? col_scale[(n + k) * col_step] : 1.0f;
        c.bias[k] = bias && n + k < N ? bias[n + k] : 0.0f;
      }
    }
    return c;
  }
  // Writes four sums, as i32 or as float, to row m from column n on.
  template <class S>
  __device__ __forceinline__ void write(int64_t m, int64_t n, const S (&sum)[4], const Columns& c) const {
    Out* const to_ = out + m * N + n;
    if constexpr (std::is_same_v<Out, int>) {
      put(to_, n, sum);
    } else {
      const float row = row_scale ? row_scale[m * row_step] : 1.0f;
      float y[4];
      select_activation(fn, [&]<Activation kFn>() {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const float z = fmaf(static_cast<float>(sum[k]) * row, c.scale[k], c.bias[k]);
          y[k] = unary_value<activation_fn(kFn), float>(z, 0.0f, 0.0f);
        }
      });
      put(to_, n, y);
    }
  }
  template <class S>
  __device__ __forceinline__ void write_one(int64_t m, int64_t n, S sum) const {
    if constexpr (std::is_same_v<Out, int>) {
      out[m * N + n] = sum;
    } else {
      const float row = row_scale ? row_scale[m * row_step] : 1.0f, add = bias ? bias[n] : 0.0f;
      const float z = fmaf(static_cast<float>(sum) * row, col_scale ? col_scale[n * col_step] : 1.0f, add);
      select_activation(fn, [&]<Activation kFn>() {
        out[m * N + n] = to<Out>(unary_value<activation_fn(kFn), float>(z, 0.0f, 0.0f));
      });
    }
  }

 private:
  template <class S>
  __device__ __forceinline__ void put(Out* to_, int64_t n, const S (&y)[4]) const {
    if (vectors && n + 4 <= N) return store(to_, y);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (n + k < N) to_[k] = to<Out>(y[k]);
    }
  }
};

inline constexpr int kSlab = 128;  // bytes of depth that are in a stage of shared memory

// The place of 16-byte piece `piece` of a row in a slab; as wgmma needs it (warpgroup.cuh).
__device__ __forceinline__ unsigned place_in_slab(int row, int piece) {
  return static_cast<unsigned>(row * kSlab + (piece ^ row % 8) * 16);
}

// The rows of an operand that a block copies, kRows from row `first` on. A thread copies one piece of some
// rows.
template <int kRows, int kThreads>
class ByteRows {
 public:
  static constexpr unsigned kBytes = kRows * kSlab;
  __device__ __forceinline__ ByteRows(const int8_t* x, int64_t rows, int64_t first, int64_t pitch, int K)
      : mine_(x + (first + row()) * pitch + piece() * 16),
        step_(kStep * pitch),
        rows_(static_cast<int>(min(rows - first - row(), static_cast<int64_t>(kRows)))),
        depth_(K - piece() * 16) {}
  // Starts the copy of bytes k0 to k0 + 127 of the rows; bytes outside of the operand become zeros.
  __device__ __forceinline__ void fetch(unsigned stage, int k0) const {
    const unsigned to_ = stage + place_in_slab(row(), piece());
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i) {
      copy_async(to_ + static_cast<unsigned>(i * kStep * kSlab), mine_ + i * step_ + k0,
                 i * kStep < rows_ && k0 < depth_);
    }
  }

 private:
  static constexpr int kStep = kThreads / 8;  // row distance of two copies of a thread
  static_assert(kStep % 8 == 0 && kRows % kStep == 0, "all rows of a thread must have the same swizzle");
  static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x) / 8; }
  static __device__ __forceinline__ int piece() { return static_cast<int>(threadIdx.x) % 8; }
  const int8_t* mine_;
  int64_t step_;
  int rows_, depth_;
};

// The tile of a block: bands of 16 tiles along M, within a band from top to bottom, so that the blocks that
// run at the same time share rows of both operands in the L2 cache.
struct TileOrder {
  int64_t down, across;  // number of tiles along M and N
  int64_t height = 16;   // of a band

  __host__ __device__ __forceinline__ int64_t count() const { return down * across; }
  __device__ __forceinline__ void place(int64_t tile, int64_t& m, int64_t& n) const {
    const int64_t first = tile / (height * across) * height, within = tile % (height * across),
                  rows = min(height, down - first);
    m = first + within % rows, n = within / rows;
  }
  __device__ __forceinline__ void place(int64_t& m, int64_t& n) const { place(blockIdx.x, m, n); }
};

// Writes a warp's sums, 16 kTiles rows and kColumns columns from row m0 and column n0 on, in whole sectors:
// they pass through `space` in shared memory, because a lane has only pairs of neighbours.
template <int kColumns, int kTiles, class Out>
__device__ __forceinline__ void write_sums(const ScaledSums<Out>& to, int* space,
                                           const int (&sum)[kTiles][kColumns / 8][4], int64_t m0,
                                           int64_t n0) {
  constexpr int kPitch = kColumns + 8;  // eight words more, so that the rows of a request differ in banks
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int* const at = space + (i * 16 + half * 8 + lane / 4) * kPitch + n * 8 + lane % 4 * 2;
        *reinterpret_cast<int2*>(at) = make_int2(sum[i][n][half * 2], sum[i][n][half * 2 + 1]);
      }
    }
  }
  __syncwarp();
  constexpr int kAcross = kColumns / 4 < kWarp ? kColumns / 4 : kWarp, kDown = kWarp / kAcross;
#pragma unroll
  for (int part = 0; part < kColumns / 4 / kAcross; ++part) {
    const int column = (part * kAcross + lane % kAcross) * 4;
    if (n0 + column >= to.N) continue;
    const auto factors = to.columns(n0 + column);
#pragma unroll 4
    for (int row = lane / kAcross; row < kTiles * 16; row += kDown) {
      if (m0 + row >= to.M) break;
      const int4 four = *reinterpret_cast<const int4*>(space + row * kPitch + column);
      const int values[4] = {four.x, four.y, four.z, four.w};
      to.write(m0 + row, n0 + column, values, factors);
    }
  }
}

// A tile of a block: kDown x kAcross warps, each with kTiles * 16 rows and 32 columns.
template <int kTiles, int kDown, int kAcross>
struct ByteTile {
  static constexpr int kRows = kDown * kTiles * 16, kColumns = kAcross * 32, kRowTiles = kTiles;
  static constexpr int kWarpsAcross = kAcross, kThreads = kDown * kAcross * kWarp, kStages = 3;
  static constexpr unsigned kStageBytes = (kRows + kColumns) * kSlab, kBytes = kStages * kStageBytes;
};
using LargeByteTile = ByteTile<4, 2, 4>;  // 128 x 128 by 8 warps
using SmallByteTile = ByteTile<2, 2, 2>;  // 64 x 64 by 4 warps

// sum += the products of one slab. x and w: this warp's first rows in shared memory.
template <int kTiles>
__device__ __forceinline__ void multiply_slab(int (&sum)[kTiles][4][4], unsigned x, unsigned w) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, row = lane % 8, which = lane / 8;
#pragma unroll
  for (int k = 0; k < kSlab / 32; ++k) {
    unsigned a[kTiles][4], b[2][4];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {  // matrices: top, bottom, and both again 16 bytes further
      load_matrices(a[i], x + static_cast<unsigned>(i * 16 * kSlab) +
                              place_in_slab(row + which % 2 * 8, k * 2 + which / 2));
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {  // eight columns and 16 bytes further, and the next eight columns
      load_matrices(b[j], w + static_cast<unsigned>(j * 16 * kSlab) +
                              place_in_slab(row + which / 2 * 8, k * 2 + which % 2));
    }
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int n = 0; n < 4; ++n)
        multiply_add_bytes(sum[i][n], a[i], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
  }
}

template <class Tile, class Out>
static __global__ void __launch_bounds__(Tile::kThreads)
    gemm_int8_kernel(const __grid_constant__ ByteProduct p, const __grid_constant__ ScaledSums<Out> to,
                     TileOrder order) {
  constexpr int kStages = Tile::kStages, kTiles = Tile::kRowTiles;
  int64_t m0, n0;
  order.place(m0, n0);
  m0 *= Tile::kRows, n0 *= Tile::kColumns;
  const ByteRows<Tile::kRows, Tile::kThreads> x(p.x, p.M, m0, p.x_row, p.K);
  const ByteRows<Tile::kColumns, Tile::kThreads> w(p.w, p.N, n0, p.w_row, p.K);
  const unsigned shared = shared_address(dynamic_shared<unsigned char>());
  const int slabs = ceil_div(p.K, kSlab);
  const auto stage = [&](int slab) {
    return shared + static_cast<unsigned>(slab % kStages) * Tile::kStageBytes;
  };
  const auto fetch = [&](int slab) {
    if (slab < slabs) {
      x.fetch(stage(slab), slab * kSlab);
      w.fetch(stage(slab) + x.kBytes, slab * kSlab);
    }
    commit_copies();
  };
  for (int slab = 0; slab < kStages - 1; ++slab) fetch(slab);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int row = warp / Tile::kWarpsAcross * kTiles * 16, column = warp % Tile::kWarpsAcross * 32;
  int sum[kTiles][4][4] = {};
  for (int slab = 0; slab < slabs; ++slab) {
    wait_for_copies<kStages - 2>();
    __syncthreads();  // the slab is there, and all warps are done with the one before it, whose stage is
                      // filled
    fetch(slab + kStages - 1);
    multiply_slab<kTiles>(sum, stage(slab) + static_cast<unsigned>(row * kSlab),
                          stage(slab) + x.kBytes + static_cast<unsigned>(column * kSlab));
  }
  wait_for_copies<0>();
  __syncthreads();
  int* const space = dynamic_shared<int>() + warp * kTiles * 16 * (32 + 8);
  write_sums<32, kTiles>(to, space, sum, m0 + row, n0 + column);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
