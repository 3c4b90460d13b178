// Float8E5M2: a number of 8 bits with 5 bits of exponent, the other fp8 format beside Float8 (kv_format.hpp).
// It has the range of f16 with two bits of fraction, so that it suits gradients; weights and activations need
// the third bit of Float8. Source: Micikevicius et al., "FP8 formats for deep learning", 2022.
#pragma once

#include <tinytorch/core/dtype.hpp>

namespace tinytorch::inline TT_BUILD::backend {

// 1 bit of sign, 5 of exponent with bias 15, 2 of fraction: the upper byte of an f16.
struct Float8E5M2 {
  uint8_t bits = 0;
  static constexpr float kLargest = 57344;

  Float8E5M2() = default;
  // Rounds to nearest, ties to even. Larger magnitudes than kLargest, infinity too, give kLargest; NaN stays
  // NaN.
  TT_HOST_DEVICE constexpr explicit Float8E5M2(float x) {
    const uint32_t word = std::bit_cast<uint32_t>(x), magnitude = word & 0x7fffffffu;
    const uint32_t normal = ((magnitude + 0xfffffu + (magnitude >> 21 & 1u)) >> 21) - (112u << 2);
    // Below 2^-14, numbers are multiples of 2^-16: adding 2^7, whose last bit is 2^-16, rounds to them.
    const uint32_t small = magnitude < 0x38800000u ? magnitude : 0u;
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(small) + 0x1p7f) - 0x43000000u;
    uint32_t code = magnitude < 0x38800000u ? subnormal : normal;
    code = magnitude >= 0x47600000u ? 0x7bu : code;
    code = magnitude > 0x7f800000u ? 0x7fu : code;
    bits = static_cast<uint8_t>(code | (word >> 24 & 0x80u));
  }
  TT_HOST_DEVICE constexpr explicit operator float() const {
    const uint32_t magnitude = bits & 0x7fu;
    uint32_t word = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 21) * 0x1p112f);
    word = magnitude == 0x7cu ? 0x7f800000u : word;
    word = magnitude > 0x7cu ? 0x7fc00000u : word;
    return std::bit_cast<float>(word | static_cast<uint32_t>(bits & 0x80u) << 24);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend
