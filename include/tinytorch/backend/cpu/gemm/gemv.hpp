// Matrix-vector product, as in decoding one token. It is memory-bound by reading the weights once, so weights
// are stored in few bytes: f32 (4), bf16 (2), i8 (1), or two 4-bit integers to a byte.
//
// Weights are widened to f32 in registers. A thread computes kGemvRows rows at a time with f32 sums in vector
// lanes, as four streams (row_streams.hpp). Limit: bytes of the weights over read bandwidth.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kInt4Group = 32;  // weights along a row that share a scale

// y [N] f32 = scale [N] (weight [N, K] x [K]). x is contiguous f32; weight is f32, bf16 or i8, with
// contiguous rows; scale is f32 or without data.
TT_API void gemv(const View& y, const View& x, const View& weight, const View& scale = {});
// gemv with 4-bit weights: -8 to 7, stored with an offset of 8. A group of kInt4Group weights along K is 16
// bytes; byte i holds weight i in its low nibble and weight i + 16 in its high nibble. x is contiguous f32;
// packed [N, K / 2] u8 and scale [N, K / kInt4Group] f32 are contiguous; K is a multiple of kInt4Group.
TT_API void gemv_int4(const View& y, const View& x, const View& packed, const View& scale);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <algorithm>
#include <bit>
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

// The low or high nibble of each byte, minus 8, as a float. With a fast table lookup the nibble is an index.
// Otherwise it is put into the mantissa of 2^23 (low nibble n gives 2^23 + n) or 2^19 (high nibble gives 2^19
// + n): this needs no conversion and no shift, and subtracting 2^23 + 8 or 2^19 + 8 is exact.
alignas(64) inline constexpr float kInt4Values[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
[[gnu::always_inline]] inline Simd<float> low_nibbles(Simd<int32_t> bytes) {
  if constexpr (kFastLookUp) return look_up(kInt4Values, bytes);
  constexpr float kBase = 0x1p23f;
  return reinterpret_cast<Simd<float>>((bytes & 0x0f) | std::bit_cast<int32_t>(kBase)) - (kBase + 8);
}
[[gnu::always_inline]] inline Simd<float> high_nibbles(Simd<int32_t> bytes) {
  if constexpr (kFastLookUp) return look_up(kInt4Values, bytes >> 4);
  constexpr float kBase = 0x1p19f;
  return reinterpret_cast<Simd<float>>((bytes & 0xf0) | std::bit_cast<int32_t>(kBase)) - (kBase + 8);
}

// y[r] = sum over groups of scale * (group of weights dot x), for kRows rows, each `spacing` groups after the
// previous one.
template <int64_t kRows>
void dot_int4(float* y, const uint8_t* w, const float* scale, int64_t spacing, const float* x,
              int64_t groups) {
  constexpr int64_t kL = kLanes<float>, kHalf = kInt4Group / 2, kSteps = kHalf / kL;
  constexpr int64_t kLine = 64 / kHalf, kScaleLine = 64 / static_cast<int64_t>(sizeof(float));  // groups
  constexpr int64_t kAhead = kGemvPrefetchBytes / kHalf;
  Simd<float> sum[kRows] = {};
  for (int64_t g = 0; g < groups; ++g, x += kInt4Group) {
    TT_UNROLL
    for (int64_t r = 0; r < kRows; ++r) {
      if (g % kLine == 0) prefetch<false>(w + (r * spacing + g + kAhead) * kHalf, 64);
      if (g % kScaleLine == 0) prefetch<false>(scale + r * spacing + g + kAhead, kScaleLine);
    }
    Simd<float> low[kSteps], high[kSteps];
    TT_UNROLL
    for (int64_t i = 0; i < kSteps; ++i) {
      keep_in_register(low[i] = simd_load(x + i * kL));
      keep_in_register(high[i] = simd_load(x + kHalf + i * kL));
    }
    TT_UNROLL
    for (int64_t r = 0; r < kRows; ++r) {
      Simd<float> group{};
      TT_UNROLL
      for (int64_t i = 0; i < kSteps; ++i) {
        const Simd<int32_t> bytes = widen_bytes(w + (r * spacing + g) * kHalf + i * kL);
        group = simd_multiply_add<float>(low_nibbles(bytes), low[i], group);
        group = simd_multiply_add<float>(high_nibbles(bytes), high[i], group);
      }
      sum[r] = simd_multiply_add<float>(simd_broadcast(scale[r * spacing + g]), group, sum[r]);
    }
  }
  for (int64_t r = 0; r < kRows; ++r) y[r] = sum_of_lanes<float>(sum[r]);
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

TT_API void gemv_int4(const View& y, const View& x, const View& packed, const View& scale) {
  const int64_t N = packed.shape[0], row = packed.shape[1], groups = 2 * row / kInt4Group;
  for_row_groups(N, row, [&](int64_t n, int64_t spacing, auto rows) {
    float sums[kGemvRows];
    dot_int4<rows.value>(sums, packed.as<const uint8_t>() + n * row, scale.as<const float>() + n * groups,
                         spacing * groups, x.as<const float>(), groups);
    for (int64_t r = 0; r < rows.value; ++r) y.as<float>()[(n + r * spacing) * y.strides[0]] = sums[r];
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
