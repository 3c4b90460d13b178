// Products of a 2:4 sparse weight with few rows of x, by the sparse tensor cores of single warps (mma.sp).
//
// The weights are operand A. Their strips (backend/strips24.hpp) are read from memory as operands, by
// 16 bytes per lane, so that no number is decoded and no shared memory is filled. The warps of a block take
// turns in the parts of one strip and add their sums at the end, in order. Rows of x come from the L1 cache.
// Limit: bytes of the strips, 9/16 of those of the dense weight, over copy bandwidth.
#pragma once

#include <tinytorch/backend/cuda/device/linear_result.cuh>
#include <tinytorch/backend/cuda/device/strips24.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// 8 kTiles rows of x; kDeep warps; kAhead parts are loaded before the first is used.
template <int kTiles_>
struct FewRows24 {
  static constexpr int kTiles = kTiles_, kDeep = 8, kThreads = kDeep * kWarp;
  static constexpr int kAhead = kTiles == 1 ? 4 : 2, kColumns = 8 * kTiles;
};

// The B fragments of a part: two products of 8 rows of x. `row` is null for rows that do not exist.
template <class T>
__device__ __forceinline__ void load_b(unsigned (&b_fragment)[2][4], const T* row, int k0, int K) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int k = k0 + j * 8;
    b_fragment[j / 4][j % 4] = row && k < K ? *reinterpret_cast<const unsigned*>(row + k) : 0u;
  }
}

// Adds the sums of the warps of a block, [rows of x][16], and writes them.
template <class Tile>
__device__ __forceinline__ void strip_epilogue(const StripsProduct& p, const LinearResult& to, float* sums,
                                               const float (&sum)[Tile::kTiles][4], int64_t m0, int64_t n0) {
  constexpr int kPitch = 17, kEach = Tile::kColumns * kPitch;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
#pragma unroll
  for (int n = 0; n < Tile::kTiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      sums[warp * kEach + (n * 8 + lane % 4 * 2 + e % 2) * kPitch + lane / 4 + e / 2 * 8] = sum[n][e];
  }
  __syncthreads();
  for (int i = thread; i < Tile::kColumns * 16; i += Tile::kThreads) {
    const int m = i / 16, n = i % 16;
    if (m0 + m >= p.M || n0 + n >= p.N) continue;
    float total = 0;
#pragma unroll
    for (int w = 0; w < Tile::kDeep; ++w) total += sums[w * kEach + m * kPitch + n];
    to.store(m0 + m, n0 + n, total);
  }
}

template <class T, class Tile>
static __global__ void __launch_bounds__(Tile::kThreads)
    gemv_sparse24_kernel(const __grid_constant__ StripsProduct p, const __grid_constant__ LinearResult to) {
  constexpr int kAhead = Tile::kAhead, kDeep = Tile::kDeep;
  __shared__ float sums[kDeep * Tile::kColumns * 17];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t strip = blockIdx.x, m0 = static_cast<int64_t>(blockIdx.y) * Tile::kColumns;
  const uint8_t* const parts = p.strips + strip * p.parts * Strips24::kPartBytes;
  const T* row[Tile::kTiles];
#pragma unroll
  for (int n = 0; n < Tile::kTiles; ++n) {
    const int64_t m = m0 + n * 8 + lane / 4;
    row[n] = m < p.M ? static_cast<const T*>(p.x) + m * p.x_row : nullptr;
  }
  float sum[Tile::kTiles][4] = {};
  for (int first = warp; first < p.parts; first += kDeep * kAhead) {
    PartOfStrip part[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int i = first + a * kDeep;
      if (i < p.parts) {
        part[a].load(parts + static_cast<int64_t>(i) * Strips24::kPartBytes);
      } else {
        part[a].clear();
      }
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int k0 = (first + a * kDeep) * static_cast<int>(Strips24::kDepth) + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < Tile::kTiles; ++n) {
        unsigned b_fragment[2][4];
        load_b(b_fragment, row[n], k0, p.K);
        multiply_add_sparse<T, 0>(sum[n], part[a].kept[0], b_fragment[0], part[a].places);
        multiply_add_sparse<T, 1>(sum[n], part[a].kept[1], b_fragment[1], part[a].places);
      }
    }
  }
  strip_epilogue<Tile>(p, to, sums, sum, m0, strip * Strips24::kRows);
}

// --- launchers ---

inline void require_sparse_tensor_cores() {
  if (has_tensor_cores()) return;
  fail("TT-CUDA-04",
       "2:4 sparse weights need a device of compute capability 8.0 or above"
       "\n  hint: multiply with the dense weight");
}

template <class T, int kTiles>
void launch_gemv_sparse24(const StripsProduct& p, const LinearResult& to) {
  using Tile = FewRows24<kTiles>;
  const dim3 grid(static_cast<unsigned>(Strips24::count(p.N)),
                  static_cast<unsigned>(ceil_div(p.M, Tile::kColumns)));
  launch(gemv_sparse24_kernel<T, Tile>, {grid, dim3(Tile::kThreads)}, p, to);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
