// The product of 8-bit integers for up to four rows of x, as in decoding: each row of the weight is read
// once. Limit: bytes of the weight over memory bandwidth.
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.13.
#pragma once

#include <cstring>
#include <tinytorch/backend/codes_product.hpp>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/functors.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kGemvThreads = 128, kGemvWarps = kGemvThreads / kWarp;
inline constexpr int kGemvRows = 4;      // rows of the weight that a warp computes together
inline constexpr int64_t kGemvMost = 4;  // rows of x up to which this kernel is used
inline constexpr int kCodesAtOnce = 16;  // codes of one access: 16 bytes

// The operands x [M, K] and w [N, K], i8, with rows of neighbouring bytes. vectors: each 16 codes of a row
// begin at a multiple of 16 bytes, and K is a multiple of 16.
struct Int8Product {
  const int8_t *x, *w;
  int64_t M, N, K, x_row, w_row;
  bool vectors;

  Int8Product(const View& x_codes, const View& w_codes)
      : x(x_codes.as<const int8_t>()),
        w(w_codes.as<const int8_t>()),
        M(x_codes.shape[0]),
        N(w_codes.shape[0]),
        K(x_codes.shape[1]),
        x_row(x_codes.strides[0]),
        w_row(w_codes.strides[0]) {
    const auto aligned = [&](const int8_t* p, int64_t row) {
      return reinterpret_cast<uintptr_t>(p) % kCodesAtOnce == 0 && row % kCodesAtOnce == 0;
    };
    vectors = K % kCodesAtOnce == 0 && aligned(x, x_row) && aligned(w, w_row);
  }
};

// The epilogue of a product of bytes: out [M, N] = fn(sum row_scale[m] column_scale[n] + bias[n]), or the
// sums themselves if out is i32.
struct Int8Result {
  void* out;
  DType dtype;
  int64_t row, column, M, N;
  const float *row_scale, *column_scale;  // null: 1
  int64_t row_scale_step, column_scale_step, bias_step;
  Stored<float> bias;
  Activation fn;

  Int8Result(const View& to, const View& x_scale, const View& weight_scale, const View& added, Activation f)
      : out(to.data),
        dtype(to.dtype),
        row(to.strides[0]),
        column(to.strides[1]),
        M(to.shape[0]),
        N(to.shape[1]),
        row_scale(x_scale.as<const float>()),
        column_scale(weight_scale.as<const float>()),
        row_scale_step(x_scale.data && x_scale.numel() > 1 ? x_scale.strides[0] : 0),
        column_scale_step(weight_scale.data && weight_scale.numel() > 1 ? weight_scale.strides[0] : 0),
        bias_step(added.data ? added.strides[0] : 0),
        bias{added.data, added.dtype},
        fn(f) {}

  // Writes the result of the complete sum of row m of x and row n of the weight.
  __device__ __forceinline__ void write(int64_t m, int64_t n, int sum) const {
    const int64_t at = m * row + n * column;
    if (dtype == DType::i32) return void(static_cast<int*>(out)[at] = sum);
    float y = static_cast<float>(sum) * (row_scale ? row_scale[m * row_scale_step] : 1.0f);
    y = fmaf(y, column_scale ? column_scale[n * column_scale_step] : 1.0f,
             bias.exists() ? bias.read(n * bias_step) : 0.0f);
    Stored<float>{out, dtype}.write(at, activated(y));
  }

 private:
  __device__ __forceinline__ float activated(float y) const {
    switch (fn) {
      case Activation::relu:
        return unary_value<UnaryFn::relu, float>(y, 0.0f, 0.0f);
      case Activation::silu:
        return unary_value<UnaryFn::silu, float>(y, 0.0f, 0.0f);
      case Activation::gelu:
        return unary_value<UnaryFn::gelu, float>(y, 0.0f, 0.0f);
      case Activation::gelu_tanh:
        return unary_value<UnaryFn::gelu_tanh, float>(y, 0.0f, 0.0f);
      default:
        return y;
    }
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/gemm/int8_gemv.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline void multiply_few_rows(const Int8Result& to, const Int8Product& p) {
  const LaunchConfig grid{dim3(static_cast<unsigned>(ceil_div(p.N, kGemvWarps * kGemvRows))),
                          dim3(kGemvThreads)};
  if (p.M == 1) return launch(int8_gemv_kernel<1>, grid, to, p);
  if (p.M == 2) return launch(int8_gemv_kernel<2>, grid, to, p);
  if (p.M == 3) return launch(int8_gemv_kernel<3>, grid, to, p);
  launch(int8_gemv_kernel<4>, grid, to, p);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
