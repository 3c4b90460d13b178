// Matrix-vector product, as in decoding one token. It is memory-bound by reading the weights once, so weights
// are stored in few bytes: f32 (4), bf16 (2) or i8 (1). Weights of fewer bits: backend/cpu/block_linear.hpp.
//
// Weights are widened to f32 in registers. A thread computes kGemvRows rows at a time with f32 sums in vector
// lanes, as four streams (row_streams.hpp). Limit: bytes of the weights over read bandwidth.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// y [N] f32 = scale [N] (weight [N, K] x [K]). x is contiguous f32; weight is f32, bf16 or i8, with
// contiguous rows; scale is f32 or without data.
TT_API void gemv(const View& y, const View& x, const View& weight, const View& scale = {});

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <algorithm>
#include <tinytorch/backend/cpu/gemm/direct.hpp>
#include <tinytorch/backend/cpu/gemm/row_streams.hpp>
#include <tinytorch/core/simd_multiply_add.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// y[r] = dot product of the row at w + r * spacing with x, for kRows rows. The bits of y[r] do not depend on
// kRows, because threads divide the rows.
template <int64_t kRows, class S>
void dot_weights(float* y, const S* w, int64_t spacing, const float* x, int64_t K) {
  constexpr int64_t kL = kLanes<float>, kSize = sizeof(S), kLine = std::max(2 * kL, 64 / kSize);
  Simd<float> sum[kRows][2] = {};  // two independent sums a row hide the latency of multiply-adds
  int64_t k = 0;
  for (; k + kLine <= K; k += kLine) {
    TT_UNROLL
    for (int64_t r = 0; r < kRows; ++r)
      prefetch<false>(w + r * spacing + k + kGemvPrefetchBytes / kSize, kLine);
    TT_UNROLL
    for (int64_t i = 0; i < kLine; i += kL) {
      Simd<float> v = simd_load(x + k + i);
      keep_in_register(v);
      TT_UNROLL
      for (int64_t r = 0; r < kRows; ++r) {
        Simd<float>& to = sum[r][i / kL % 2];
        to = simd_multiply_add<float>(load_floats(w + r * spacing + k + i), v, to);
      }
    }
  }
  for (; k + kL <= K; k += kL) {
    const Simd<float> v = simd_load(x + k);
    TT_UNROLL
    for (int64_t r = 0; r < kRows; ++r)
      sum[r][0] = simd_multiply_add<float>(load_floats(w + r * spacing + k), v, sum[r][0]);
  }
  for (int64_t r = 0; r < kRows; ++r) {
    float total = sum_of_lanes<float>(sum[r][0] + sum[r][1]);
    for (int64_t i = k; i < K; ++i)
      total = math::multiply_add(convert<float>(w[r * spacing + i]), x[i], total);
    y[r] = total;
  }
}

template <class S>
void gemv_as(float* y, int64_t y_step, const float* x, const S* weight, int64_t row, int64_t N, int64_t K,
             const View& scale) {
  for_row_groups(N, K * static_cast<int64_t>(sizeof(S)), [&](int64_t n, int64_t spacing, auto rows) {
    float sums[kGemvRows];
    dot_weights<rows.value>(sums, weight + n * row, spacing * row, x, K);
    for (int64_t r = 0; r < rows.value; ++r) {
      const int64_t at = n + r * spacing;
      y[at * y_step] = scale.data ? scale.as<const float>()[at * scale.strides[0]] * sums[r] : sums[r];
    }
  });
}

TT_API void gemv(const View& y, const View& x, const View& weight, const View& scale) {
  const int64_t N = weight.shape[0], K = weight.shape[1], row = weight.strides[0];
  const auto run = [&]<class S>(const S* w) {
    gemv_as(y.as<float>(), y.strides[0], x.as<const float>(), w, row, N, K, scale);
  };
  if (weight.dtype == DType::bf16) return run(weight.as<const BFloat16>());
  if (weight.dtype == DType::i8) return run(weight.as<const int8_t>());
  if (weight.dtype != DType::f32) fail("TT-DTYPE-02", "gemv: weights must be f32, bf16 or i8");
  run(weight.as<const float>());
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
