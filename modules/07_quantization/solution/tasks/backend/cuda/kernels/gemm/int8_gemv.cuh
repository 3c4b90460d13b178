// The product of 8-bit integers for up to four rows of x, as in decoding: each row of the weight is read
// once. Limit: bytes of the weight over memory bandwidth.
//
// Task 7.13: load_codes, add_dot, int8_gemv_kernel. The given parts of this header are in
// modules/07_quantization/frame/tinytorch/backend/cuda/kernels/gemm/int8_gemv.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The 16 codes of a row from column k on; zeros from column K on. vectors: row + k is a multiple of 16 bytes,
// and K a multiple of 16, so that they are one access. Else they are read one by one.
__device__ __forceinline__ uint4 load_codes(const int8_t* row, int64_t k, int64_t K, bool vectors) {
  if (vectors) return k < K ? *reinterpret_cast<const uint4*>(row + k) : uint4{};
  int8_t codes[kCodesAtOnce];
#pragma unroll
  for (int i = 0; i < kCodesAtOnce; ++i) codes[i] = k + i < K ? row[k + i] : int8_t{0};
  uint4 out;
  memcpy(&out, codes, sizeof(out));
  return out;
}

// sum + a[0] b[0] + ... + a[15] b[15], as signed bytes. __dp4a(a, b, c) adds four such products to c.
__device__ __forceinline__ int add_dot(int sum, const uint4& a, const uint4& b) {
  sum = __dp4a(static_cast<int>(a.x), static_cast<int>(b.x), sum);
  sum = __dp4a(static_cast<int>(a.y), static_cast<int>(b.y), sum);
  sum = __dp4a(static_cast<int>(a.z), static_cast<int>(b.z), sum);
  return __dp4a(static_cast<int>(a.w), static_cast<int>(b.w), sum);
}

// kRows: rows of x, p.M. A warp computes kGemvRows rows of the weight, from n0 on, for all rows of x: warp w
// of block b those from (b * kGemvWarps + w) * kGemvRows on, as far as they exist.
//
//   1. Lanes have 16 neighbouring codes each, lane * 16, lane * 16 + 512, ... below K: those of the kGemvRows
//      rows of the weight (load_codes), then those of each row of x, which serve all rows of the weight.
//   2. The sums of all lanes, warp_reduce(sum, Sum()), which all lanes call.
//   3. Lane 0 writes them: to.write(m, n, sum).
template <int kRows>
static __global__ void __launch_bounds__(kGemvThreads)
    int8_gemv_kernel(const __grid_constant__ Int8Result to, const __grid_constant__ Int8Product p) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t n0 = (static_cast<int64_t>(blockIdx.x) * kGemvWarps + warp) * kGemvRows;
  if (n0 >= p.N) return;
  int sum[kGemvRows][kRows] = {};
  for (int64_t k = lane * kCodesAtOnce; k < p.K; k += kWarp * kCodesAtOnce) {
    uint4 w[kGemvRows];
#pragma unroll
    for (int r = 0; r < kGemvRows; ++r)
      w[r] = n0 + r < p.N ? load_codes(p.w + (n0 + r) * p.w_row, k, p.K, p.vectors) : uint4{};
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const uint4 x = load_codes(p.x + m * p.x_row, k, p.K, p.vectors);
#pragma unroll
      for (int r = 0; r < kGemvRows; ++r) sum[r][m] = add_dot(sum[r][m], x, w[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kGemvRows; ++r) {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const int total = warp_reduce(sum[r][m], Sum());
      if (lane == 0 && n0 + r < p.N) to.write(m, n0 + r, total);
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
