// Products with a weight stored as a bitmap (contract: backend/cpu/spmv.hpp), for few rows of x.
//
// A warp computes some rows of the weight. In a step a lane has 8 neighbouring columns, a byte of the bitmap;
// a scan of the bytes' counts says where its numbers begin. The numbers of a step are neighbours in memory,
// so the loads of a warp meet few lines although each lane loads single numbers. x is loaded once for all
// rows of the warp. Limit: bytes of the numbers and the bitmap over copy bandwidth.
//
// Task 8.12: BitmapRows::add_step, spmv_bitmap_kernel, launch_spmv_bitmap. The given parts of this header are
// in modules/08_pruning/frame/tinytorch/backend/cuda/kernels/spmv.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Multiplies the numbers of a step with the lane's 8 numbers of x.
template <class T, int kRows>
__device__ __forceinline__ void BitmapRows<T, kRows>::add_step(float (&sum)[kRows],
                                                               const unsigned (&byte)[kRows],
                                                               const float (&x)[8]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int pair = 0; pair < kRows; pair += 2) {
    // Two rows are counted in one word: a step has at most 256 numbers.
    const unsigned own =
        static_cast<unsigned>(__popc(byte[pair])) | static_cast<unsigned>(__popc(byte[pair + 1])) << 16;
    unsigned upto = own;
#pragma unroll
    for (unsigned step = 1; step < kWarp; step *= 2) {
      const unsigned before = __shfl_up_sync(0xffffffffu, upto, step);
      if (lane >= static_cast<int>(step)) upto += before;
    }
    const unsigned all = __shfl_sync(0xffffffffu, upto, kWarp - 1), before = upto - own;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = pair + half;
      const T* at = value[r] + (before >> (16 * half) & 0xffffu);
      float v[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const bool stored = (byte[r] >> j & 1u) != 0;
        v[j] = stored ? to<float>(*at) : 0.0f;
        at += stored ? 1 : 0;
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) sum[r] = fmaf(v[j], x[j], sum[r]);
      value[r] += all >> (16 * half) & 0xffffu;
    }
  }
}

// x: rows of K padded to `columns`, a multiple of 16 bytes. blockIdx.y is the row of x.
template <class T, int kRows>
static __global__ void __launch_bounds__(kSpmvThreads)
    spmv_bitmap_kernel(const __grid_constant__ BitmapView w, const T* x, int64_t x_row, int columns,
                       const __grid_constant__ LinearResult to) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t n0 =
      (static_cast<int64_t>(blockIdx.x) * (kSpmvThreads / kWarp) + threadIdx.x / kWarp) * kRows;
  if (n0 >= w.rows) return;
  BitmapRows<T, kRows> rows(w, n0);
  const T* const from = x + blockIdx.y * x_row;
  float sum[kRows] = {};
  unsigned byte[kRows], next[kRows];
  rows.load_bits(byte, 0);
#pragma unroll 1
  for (int k0 = 0; k0 < columns; k0 += kSpmvStep) {
    rows.load_bits(next, k0 / 8 + kWarp);  // one step ahead
    const int k = k0 + lane * 8;
    float factors[8] = {};
    constexpr int kEach = 16 / static_cast<int>(sizeof(T));
#pragma unroll
    for (int part = 0; part < 8; part += kEach) {
      if (k + part < columns) {
        float few[kEach];
        load(few, from + k + part);
#pragma unroll
        for (int j = 0; j < kEach; ++j) factors[part + j] = few[j];
      }
    }
    rows.add_step(sum, byte, factors);
#pragma unroll
    for (int r = 0; r < kRows; ++r) byte[r] = next[r];
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    for (int step = kWarp / 2; step > 0; step /= 2) sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], step);
    if (lane == 0 && n0 + r < w.rows) to.store(blockIdx.y, n0 + r, sum[r]);
  }
}

template <class T, int kRows>
void launch_spmv_bitmap(const BitmapView& w, const PaddedRows<T>& x, int64_t M, const LinearResult& to) {
  LaunchConfig config = over(ceil_div(w.rows, kRows) * kWarp, kSpmvThreads);
  config.grid.y = static_cast<unsigned>(M);
  launch(spmv_bitmap_kernel<T, kRows>, config, w, x.data(), x.row(), static_cast<int>(x.columns()), to);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
