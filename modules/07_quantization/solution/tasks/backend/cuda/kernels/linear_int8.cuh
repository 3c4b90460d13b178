// Linear layers with 8-bit codes (contract: backend/cpu/linear_int8.hpp): out = fn(x W^T scales + bias). Up
// to four rows of x are multiplied by gemm/int8_gemv.cuh, more by tensor cores. Limit: 2 M N K operations.
//
// Task 7.14: bring_codes, multiply_codes, write_tile, int8_tile_kernel. The given parts of this header are in
// modules/07_quantization/frame/tinytorch/backend/cuda/kernels/linear_int8.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Copies kTile rows of an operand [rows, K], from row `first` on, columns k0 to k0 + kDepth - 1, to shared
// memory, where row r begins at to + r * kPitch. What is outside of the operand becomes zeros. Each thread
// has some of the pieces of 16 codes (load_codes), and neighbouring threads have neighbouring pieces.
__device__ __forceinline__ void bring_codes(int8_t* to, const int8_t* from, int64_t rows, int64_t pitch,
                                            int64_t K, int64_t first, int64_t k0, bool vectors) {
  constexpr int kPieces = kDepth / kCodesAtOnce;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kPieces; i += kTileThreads) {
    const int r = i / kPieces, k = i % kPieces * kCodesAtOnce;
    const bool inside = first + r < rows;
    *reinterpret_cast<uint4*>(to + r * kPitch + k) =
        inside ? load_codes(from + (first + r) * pitch, k0 + k, K, vectors) : uint4{};
  }
}

// sum += x w^T of this warp's 32 rows of x and 32 rows of w, which begin at x and at w in shared memory, over
// kDepth columns. sum[i][n] is the tile of rows 16 i and columns 8 n.
//
// Each 32 columns take these steps. load_matrices gives lane l the registers of four 8 x 8 matrices of pairs
// of codes, whose rows of 16 bytes begin at the addresses that the lanes pass: lane l that of row l % 8 of
// matrix l / 8.
//   a[i]: rows 16 i and 16 i + 8, then both again 16 bytes further
//   b[j]: w's rows 16 j, the same 16 bytes further, and both of rows 16 j + 8
// multiply_add_bytes(sum[i][n], a[i], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]) adds a 16 x 8 tile.
__device__ __forceinline__ void multiply_codes(int (&sum)[2][4][4], const int8_t* x, const int8_t* w) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, row = lane % 8, which = lane / 8;
  const unsigned x_address = shared_address(x), w_address = shared_address(w);
#pragma unroll
  for (int k = 0; k < kDepth; k += 32) {
    unsigned a[2][4], b[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int x_row = i * 16 + which % 2 * 8 + row, w_row = i * 16 + which / 2 * 8 + row;
      load_matrices(a[i], x_address + static_cast<unsigned>(x_row * kPitch + k + which / 2 * 16));
      load_matrices(b[i], w_address + static_cast<unsigned>(w_row * kPitch + k + which % 2 * 16));
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int n = 0; n < 4; ++n)
        multiply_add_bytes(sum[i][n], a[i], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
  }
}

// Writes the sums of this warp, whose first row and column are m0 and n0, as far as they are inside of the
// result. Lane l has of each tile [16, 8]: columns l % 4 * 2 and the next of row l / 4, in sum[0] and sum[1],
// and of row l / 4 + 8, in sum[2] and sum[3].
__device__ __forceinline__ void write_tile(const Int8Result& to, const int (&sum)[2][4][4], int64_t m0,
                                           int64_t n0) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t m = m0 + i * 16 + e / 2 * 8 + lane / 4, column = n0 + n * 8 + lane % 4 * 2 + e % 2;
        if (m < to.M && column < to.N) to.write(m, column, sum[i][n][e]);
      }
    }
  }
}

// The tile of rows blockIdx.y * kTile and columns blockIdx.x * kTile. For each kDepth columns of K: both
// operands to shared memory; barrier; multiply_codes; barrier, before the next columns overwrite these. Sums
// become results when they are complete, because the scales are not part of the integers.
static __global__ void __launch_bounds__(kTileThreads)
    int8_tile_kernel(const __grid_constant__ Int8Result to, const __grid_constant__ Int8Product p) {
  int8_t *const x = dynamic_shared<int8_t>(), *const w = x + kTile * kPitch;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, row = warp / 2 * kPart, column = warp % 2 * kPart;
  const int64_t m0 = static_cast<int64_t>(blockIdx.y) * kTile, n0 = static_cast<int64_t>(blockIdx.x) * kTile;
  int sum[2][4][4] = {};
  for (int64_t k = 0; k < p.K; k += kDepth) {
    bring_codes(x, p.x, p.M, p.x_row, p.K, m0, k, p.vectors);
    bring_codes(w, p.w, p.N, p.w_row, p.K, n0, k, p.vectors);
    __syncthreads();
    multiply_codes(sum, x + row * kPitch, w + column * kPitch);
    __syncthreads();
  }
  write_tile(to, sum, m0 + row, n0 + column);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
