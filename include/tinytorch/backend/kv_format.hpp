// KvFormat: what the memory of a cache holds for a row [D], a key or value of one token and head.
//
//   of_dtype   D elements of the cache's dtype; with i8, they have an f32 scale per row
//   fp8        D numbers of 8 bits (e4m3: 4 bits of exponent, 3 of fraction), and an f32 scale per row
//   i4         groups of 32 numbers from -8 to 7, two to a byte, and a bf16 scale per group
//
// A scale depends on its own row alone, so appending a token changes no older one. The keys of i4 are rotated
// by a Hadamard transform, as are the queries, which changes no product of a query and a key: a channel with
// large values, as models have, is spread over all and does not take the precision from its group. Values are
// not rotated. A scale of bf16 covers all floats; its few bits do no harm, because numbers are rounded after
// it. Source: Ashkboos et al., "QuaRot: outlier-free 4-bit inference in rotated LLMs", 2024.
#pragma once

#include <tinytorch/core/dtype.hpp>
#include <tinytorch/core/shape.hpp>

namespace tinytorch::inline TT_BUILD {

enum class KvFormat : uint8_t { of_dtype, fp8, i4 };

constexpr const char* name_of(KvFormat format) {
  return format == KvFormat::of_dtype ? "of_dtype" : format == KvFormat::fp8 ? "fp8" : "i4";
}

namespace backend {

inline constexpr int64_t kKvGroup = 32;  // numbers of i4 that share a scale

// The memory of a row: `elements` of `dtype`, and `scales` of `scale_dtype`.
struct KvRowLayout {
  DType dtype;
  int64_t elements;
  DType scale_dtype;
  int64_t scales;

  constexpr int64_t bytes() const {
    return elements * static_cast<int64_t>(size_of(dtype)) +
           scales * static_cast<int64_t>(size_of(scale_dtype));
  }
};
TT_HOST_DEVICE constexpr KvRowLayout kv_row_layout(KvFormat format, DType dtype, int64_t head_size) {
  const int64_t groups = ceil_div(head_size, kKvGroup);
  if (format == KvFormat::i4) return {DType::u8, groups * kKvGroup / 2, DType::bf16, groups};
  if (format == KvFormat::fp8) return {DType::u8, head_size, DType::f32, 1};
  return {dtype, head_size, DType::f32, dtype == DType::i8 ? 1 : 0};
}

// Number j of a group of i4 is in the low bits of byte j, for j < 16, or in the high bits of byte j - 16. The
// bits are the number plus 8. An element type of kernels, without a value of its own.
struct Int4 {};

// A number of 8 bits: 1 bit of sign, 4 of exponent with bias 7, 3 of fraction. There is no infinity.
struct Float8 {
  uint8_t bits = 0;
  static constexpr float kLargest = 448;

  Float8() = default;
  // Rounds to nearest, ties to even. Larger magnitudes than kLargest give kLargest; NaN stays NaN.
  TT_HOST_DEVICE constexpr explicit Float8(float x) {
    const uint32_t word = std::bit_cast<uint32_t>(x), magnitude = word & 0x7fffffffu;
    const uint32_t normal = ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120u << 3);
    // Below 2^-6, numbers are multiples of 2^-9: adding 2^14, whose last bit is 2^-9, rounds to them.
    const uint32_t small = magnitude < 0x3c800000u ? magnitude : 0u;
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(small) + 0x1p14f) - 0x46800000u;
    uint32_t code = magnitude < 0x3c800000u ? subnormal : normal;
    code = magnitude >= 0x43e00000u ? 0x7eu : code;
    code = magnitude > 0x7f800000u ? 0x7fu : code;
    bits = static_cast<uint8_t>(code | (word >> 24 & 0x80u));
  }
  TT_HOST_DEVICE constexpr explicit operator float() const {
    const uint32_t magnitude = bits & 0x7fu;
    const uint32_t word = magnitude == 0x7fu ? 0x7fc00000u : std::bit_cast<uint32_t>(scaled(magnitude));
    return std::bit_cast<float>(word | static_cast<uint32_t>(bits & 0x80u) << 24);
  }

 private:
  // The exponent of a float has a bias that is larger by 120; the product is exact for subnormal numbers too.
  TT_HOST_DEVICE static constexpr float scaled(uint32_t magnitude) {
    return std::bit_cast<float>(magnitude << 20) * 0x1p120f;
  }
};

// A key of D features is rotated in blocks of hadamard_block(D): the largest power of two that divides D.
TT_HOST_DEVICE constexpr int64_t hadamard_block(int64_t D) { return D & -D; }

// The scale of a group of i4 whose least and largest numbers are given: the extreme one becomes -8, which
// uses all 16 codes. NaN if a number is not finite.
TT_HOST_DEVICE constexpr BFloat16 int4_scale(float least, float largest) {
  const float extreme = largest >= -least ? largest : least;
  const bool finite =
      least >= -std::numeric_limits<float>::max() && largest <= std::numeric_limits<float>::max();
  return BFloat16(finite ? extreme / -8 : std::numeric_limits<float>::quiet_NaN());
}

}  // namespace backend
}  // namespace tinytorch::inline TT_BUILD
