// Linear layers with 8-bit codes (contract: backend/cpu/linear_int8.hpp): out = fn(x W^T scales + bias). Up
// to four rows of x are multiplied by gemm/int8_gemv.cuh, more by tensor cores. Limit: 2 M N K operations.
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.14.
#pragma once

#include <algorithm>
#include <optional>
#include <tinytorch/backend/cuda/device/tensor_core.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/int8_gemv.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A block of four warps computes kTile x kTile results. Warps are arranged 2 x 2, each with 32 x 32 of them:
// 2 x 4 tiles of 16 x 8.
inline constexpr int kTile = 64, kTileThreads = 128, kPart = 32;
// Depth that is in shared memory at a time, and bytes from one row to the next there: 16 more, so that eight
// rows lie in different banks.
inline constexpr int kDepth = 64, kPitch = kDepth + 16;

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/linear_int8.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline void multiply_tiles(const Int8Result& to, const Int8Product& p) {
  const dim3 grid(static_cast<unsigned>(ceil_div(p.N, kTile)), static_cast<unsigned>(ceil_div(p.M, kTile)));
  launch(int8_tile_kernel, {grid, dim3(kTileThreads), 2 * kTile * kPitch}, to, p);
}

// Bytes of a [rows, K] matrix whose rows are not contiguous.
static __global__ void __launch_bounds__(256)
    gather_codes_kernel(int8_t* to, const int8_t* from, int64_t row, int64_t column, int64_t K, int64_t all) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i < all) to[i] = from[i / K * row + i % K * column];
}
class CodeMatrix {
 public:
  explicit CodeMatrix(const View& v) : view_(v) {
    if (v.strides[1] == 1 || v.shape[1] <= 1) return;
    copy_.emplace(v.numel());
    launch(gather_codes_kernel, over(v.numel(), 256), copy_->data(), v.as<const int8_t>(), v.strides[0],
           v.strides[1], v.shape[1], v.numel());
    view_.data = copy_->data(), view_.strides = {v.shape[1], 1};
  }
  const View& view() const { return view_; }

 private:
  View view_;
  std::optional<DeviceScratch<int8_t>> copy_;
};

// Rows m to m + count - 1 of an operand of M rows; all of one that has a single row, or none.
inline View some_rows(View v, int64_t m, int64_t count) {
  if (!v.data || v.shape[0] == 1) return v;
  v.data = static_cast<char*>(v.data) + m * v.strides[0] * static_cast<int64_t>(size_of(v.dtype));
  v.shape[0] = count;
  return v;
}

void linear_int8(const View& out, const View& x, const View& weight, const View& x_scale,
                 const View& weight_scale, const View& bias, Activation fn) {
  check_codes_product("linear_int8", DType::i8, out, x, weight, x_scale, weight_scale, bias, fn);
  if (out.numel() == 0) return;
  const CodeMatrix x_codes(x), w_codes(weight);
  const int64_t M = x.shape[0];
  if (M > kGemvMost && has_tensor_cores())
    return multiply_tiles(Int8Result(out, x_scale, weight_scale, bias, fn),
                          Int8Product(x_codes.view(), w_codes.view()));
  for (int64_t m = 0; m < M; m += kGemvMost) {
    const int64_t count = std::min(kGemvMost, M - m);
    multiply_few_rows(
        Int8Result(some_rows(out, m, count), some_rows(x_scale, m, count), weight_scale, bias, fn),
        Int8Product(some_rows(x_codes.view(), m, count), w_codes.view()));
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
