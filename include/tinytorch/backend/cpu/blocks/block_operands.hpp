// The operands of a product with packed weights: rows of packed weights, and rows of activations as floats or
// rounded to 8 bits in groups of 32.
#pragma once

#include <cmath>
#include <tinytorch/backend/block_format.hpp>
#include <tinytorch/core/simd_bytes.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kActivationGroup = 32;  // activations of 8 bits that share a scale

// A row of activations in 8 bits: number i is code[i] * scale[i / kActivationGroup].
struct Int8Row {
  const int8_t* code;  // -127 to 127
  const float* scale;
  const int32_t* sum;  // of 16 codes each
};

struct BlockOperands {
  const uint8_t* weight;  // [N, row_bytes]
  int64_t N, row_bytes, blocks;
  // [M, K]: floats; or codes, their scales [M, K / kActivationGroup] and their sums [M, K / 16].
  int64_t M, K;
  const float* x;
  const int8_t* code;
  const float* scale;
  const int32_t* sum;
  float* y;  // y[m * y_row + n]
  int64_t y_row;
  bool parallel;

  Int8Row coded_row(int64_t m) const {
    return {code + m * K, scale + m * (K / kActivationGroup), sum + m * (K / 16)};
  }
};

// x[0 .. K) in 8 bits: the largest magnitude of each group becomes 127. A group with a number that is not
// finite gets the scale NaN, so that it is not hidden. `total` receives the sums of 16 codes each.
inline void quantize_activations(const float* x, int64_t K, int8_t* code, float* scale, int32_t* total) {
  for (int64_t g = 0; g < K / kActivationGroup; ++g, x += kActivationGroup, code += kActivationGroup) {
    float most[8] = {}, sums[8] = {}, largest = 0, sum = 0;
    for (int64_t i = 0; i < kActivationGroup; i += 8) {
      for (int64_t j = 0; j < 8; ++j) {
        most[j] = std::max(most[j], std::fabs(x[i + j]));
        sums[j] += x[i + j] - x[i + j];  // 0, or NaN
      }
    }
    for (int64_t j = 0; j < 8; ++j) largest = std::max(largest, most[j]), sum += sums[j];
    const float inverse = largest > 0 ? 127 / largest : 0;
    scale[g] = largest / 127 + sum;
    for (int64_t i = 0; i < kActivationGroup; ++i) {
      const float v = sum == 0 ? x[i] * inverse : 0.0f;
      code[i] = static_cast<int8_t>(static_cast<int>(v + (v < 0 ? -0.5f : 0.5f)));
    }
    for (int64_t half = 0; half < 2; ++half) {
      int32_t codes = 0;
      for (int64_t i = 0; i < 16; ++i) codes += code[16 * half + i];
      *total++ = codes;
    }
  }
}

// a b, rounded before anything is added to it, so that every build packs the same bytes.
template <class T>
[[gnu::always_inline]] inline T rounded_product(T a, T b) {
  T p = a * b;
  keep_in_register(p);
  return p;
}

// x[i] = scale (code[i] - zero) and x[i] = scale code[i] + offset, for kCount codes of 8 bits. The products
// of the first form are rounded once; those of the second are exact for the scales of all formats.
template <int64_t kCount, class Byte>
[[gnu::always_inline]] inline void decode_codes(const Byte* code, float scale, float zero, float* x) {
  TT_UNROLL
  for (int64_t i = 0; i < kCount; i += 8) {
    const Floats8 v = spread(scale) * (bytes_to_floats(code + i) - spread(zero));
    std::memcpy(x + i, &v, sizeof v);
  }
}
template <int64_t kCount>
[[gnu::always_inline]] inline void decode_with_offset(const uint8_t* code, float scale, float offset,
                                                      float* x) {
  TT_UNROLL
  for (int64_t i = 0; i < kCount; i += 8) {
    const Floats8 v = spread(scale) * bytes_to_floats(code + i) + spread(offset);
    std::memcpy(x + i, &v, sizeof v);
  }
}

// 1 / d, or 0 if that overflows: a scale so small rounds to 0 in f16.
inline float inverse_or_zero(float d) { return std::fabs(d) >= 0x1p-126f ? 1 / d : 0; }

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#pragma GCC diagnostic pop
