// The product of 8-bit integers for up to four rows of x, as in decoding: dp4a multiplies four pairs of bytes
// and adds them exactly. A warp computes two rows of the weight, which are read once, 16 bytes to a lane; x
// is read from the L1 cache. Limit: bytes of the weight over memory bandwidth.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/int8_tiles.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kGemvWarps = 8, kGemvRowsOfWarp = 2, kGemvMost = 4;

// sum + the dot product of kBytes bytes.
template <int kBytes>
__device__ __forceinline__ int add_dot_of_bytes(int sum, const typename WordOf<kBytes>::Type& x,
                                                const typename WordOf<kBytes>::Type& w) {
  if constexpr (kBytes == 1) {
    return sum + static_cast<int8_t>(x) * static_cast<int8_t>(w);
  } else {
    int a[kBytes / 4], b[kBytes / 4];
    memcpy(a, &x, sizeof(x));
    memcpy(b, &w, sizeof(w));
#pragma unroll
    for (int i = 0; i < kBytes / 4; ++i) sum = __dp4a(a[i], b[i], sum);
    return sum;
  }
}

// kBytes: of one access: 16, or 4 or 1 if the operands are not aligned.
template <int kRows, int kBytes, class Out>
static __global__ void __launch_bounds__(kGemvWarps* kWarp)
    gemv_int8_kernel(const __grid_constant__ ByteProduct p, const __grid_constant__ ScaledSums<Out> to) {
  using Word = typename WordOf<kBytes>::Type;
  constexpr int kEach = kGemvRowsOfWarp, kAhead = kRows > 2 ? 2 : 4, kStep = kWarp * kBytes;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t n0 = (static_cast<int64_t>(blockIdx.x) * kGemvWarps + threadIdx.x / kWarp) * kEach;
  if (n0 >= p.N) return;
  const int8_t* rows[kEach];
#pragma unroll
  for (int r = 0; r < kEach; ++r) rows[r] = p.w + min(n0 + r, p.N - 1) * p.w_row;
  int sum[kEach][kRows] = {};
  for (int first = lane * kBytes; first < p.K; first += kAhead * kStep) {
    Word w[kAhead][kEach];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
#pragma unroll
      for (int r = 0; r < kEach; ++r) {
        const int k = first + a * kStep;
        w[a][r] = k < p.K ? *reinterpret_cast<const Word*>(rows[r] + k) : Word{};
      }
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int k = first + a * kStep;
      if (k >= p.K) break;
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        const Word x = *reinterpret_cast<const Word*>(p.x + m * p.x_row + k);
#pragma unroll
        for (int r = 0; r < kEach; ++r) sum[r][m] = add_dot_of_bytes<kBytes>(sum[r][m], x, w[a][r]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      const int total = warp_reduce(sum[r][m], Sum());
      if (lane == 0 && n0 + r < p.N) to.write_one(m, n0 + r, total);
    }
  }
}

template <int kBytes, class Out>
void launch_gemv(const ByteProduct& p, const ScaledSums<Out>& to) {
  const LaunchConfig grid{dim3(static_cast<unsigned>(ceil_div(p.N, kGemvWarps * kGemvRowsOfWarp))),
                          dim3(kGemvWarps * kWarp)};
  if (p.M == 1) return launch(gemv_int8_kernel<1, kBytes, Out>, grid, p, to);
  if (p.M == 2) return launch(gemv_int8_kernel<2, kBytes, Out>, grid, p, to);
  if (p.M == 3) return launch(gemv_int8_kernel<3, kBytes, Out>, grid, p, to);
  launch(gemv_int8_kernel<kGemvMost, kBytes, Out>, grid, p, to);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
