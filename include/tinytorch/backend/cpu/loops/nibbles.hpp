// Bytes with two numbers of 4 bits, as floats from -8 to 7: low_nibbles() and high_nibbles().
#pragma once

#include <bit>
#include <tinytorch/core/simd_widen.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

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

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
