// Blocks of floating-point numbers of 4 bits (E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives):
//
//   MXFP4  17 bytes: the exponent e of a power of two, 16 bytes of two codes   x = 2^(e - 127) E2M1(code)
//   NVFP4  36 bytes: scales s of 4 groups of 16, E4M3 without sign, and
//          4 times 8 bytes of two codes                                        x = s E2M1(code)
//
// Byte i of a group holds code i in its low half; the codes of the second half of the group are in the high
// halves. The bytes are those of the ggml library (ggml-common.h). A scale of NVFP4 is at least 2^-9, in
// steps of 2^-9 below 2^-6: weights below 0.1 lose accuracy unless the caller scales them up.
#pragma once

#include <bit>
#include <tinytorch/backend/cpu/blocks/simple_blocks.hpp>
#include <tinytorch/backend/kv_format.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int8_t kTwiceE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
inline constexpr int8_t kTwiceE2m1Plus12[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// The code whose number times half_scale is nearest to x. Of two, it is the one of the smaller magnitude.
inline unsigned nearest_e2m1(float x, float half_scale) {
  unsigned best = 0;
  float least = std::fabs(x);
  for (unsigned c = 1; c < 16; ++c) {
    const float error = std::fabs(rounded_product(half_scale, static_cast<float>(kTwiceE2m1[c])) - x);
    if (error < least) least = error, best = c;
  }
  return best;
}
template <int kHalf>
void pack_e2m1(const float* x, float half_scale, uint8_t* out) {
  for (int i = 0; i < kHalf; ++i) {
    out[i] =
        static_cast<uint8_t>(nearest_e2m1(x[i], half_scale) | nearest_e2m1(x[i + kHalf], half_scale) << 4);
  }
}

struct MXFP4 {
  static constexpr const char* kName = "MXFP4";
  static constexpr int32_t kGgufType = 39;
  static constexpr int64_t kBlock = 32, kBytes = 17, kScaled = 32;
  static constexpr int kLargest = 24, kZero = 12;
  static constexpr bool kOffset = false;

  // 2^(e - 128), half of the scale.
  static float half_scale(uint8_t e) {
    return std::bit_cast<float>(e < 2 ? uint32_t{0x00200000} << e : static_cast<uint32_t>(e - 1) << 23);
  }
  // The largest magnitude gets the exponent 2 of the largest codes, 4 and 6.
  static void pack(const float* x, uint8_t* block) {
    float largest = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
    block[0] = largest > 0 ? static_cast<uint8_t>(std::max(0, std::ilogb(largest) - 2 + 127)) : uint8_t{0};
    pack_e2m1<16>(x, half_scale(block[0]), block + 1);
  }
  static void unpack(const uint8_t* block, float* x) {
    const Bytes32 twice = look_up_bytes(kTwiceE2m1, nibbles(block + 1));
    decode_codes<32>(reinterpret_cast<const int8_t*>(&twice), half_scale(block[0]), 0, x);
  }
  static void decode(const RowPointers& row, int64_t at, EightRows<MXFP4>& out) {
    transpose_nibbles(row, at + 1, out.code);
    TT_UNROLL
    for (Bytes32& code : out.code) code = look_up_bytes(kTwiceE2m1Plus12, code);
    Words8 e;
    for (int r = 0; r < 8; ++r) e[r] = row[r][at];
    const Words8 subnormal = (spread_word(0x00200000) << (e & 1)), normal = (e - 1) << 23;
    out.scale[0] = reinterpret_cast<Floats8>(e < 2 ? subnormal : normal);
  }
};

struct NVFP4 {
  static constexpr const char* kName = "NVFP4";
  static constexpr int32_t kGgufType = 40;
  static constexpr int64_t kBlock = 64, kBytes = 36, kScaled = 16;
  static constexpr int kLargest = 24, kZero = 12;
  static constexpr bool kOffset = false;

  // The largest magnitude of a group becomes 6, up to the rounding of the scale.
  static void pack(const float* x, uint8_t* block) {
    for (int g = 0; g < 4; ++g) {
      float largest = 0;
      for (int i = 0; i < 16; ++i) largest = std::max(largest, std::fabs(x[16 * g + i]));
      block[g] = Float8(std::min(largest / 6, Float8::kLargest)).bits;
      pack_e2m1<8>(x + 16 * g, scale(block[g]) / 2, block + 4 + 8 * g);
    }
  }
  static void unpack(const uint8_t* block, float* x) {
    for (int pair = 0; pair < 2; ++pair) {  // the low halves of 16 bytes, then their high halves
      const Bytes32 twice = look_up_bytes(kTwiceE2m1, nibbles(block + 4 + 16 * pair));
      const auto* const codes = reinterpret_cast<const int8_t*>(&twice);
      for (int g = 0; g < 2; ++g) {
        const float half_scale = scale(block[2 * pair + g]) / 2;
        for (int half = 0; half < 2; ++half)
          decode_codes<8>(codes + 16 * half + 8 * g, half_scale, 0, x + 32 * pair + 16 * g + 8 * half);
      }
    }
  }
  static void decode(const RowPointers& row, int64_t at, EightRows<NVFP4>& out) {
    const auto scales = reinterpret_cast<Words8>(gather_words(row, at));
    TT_UNROLL
    for (int g = 0; g < 4; ++g) {
      // E4M3 has the bits of a float, shifted, and an exponent that is less by 120; half of it is wanted.
      const Words8 bits = scales >> 8 * g & 0x7f, shifted = bits == 0x7f ? spread_word(0) : bits << 20;
      out.scale[g] = reinterpret_cast<Floats8>(shifted) * spread(0x1p119f);
    }
    TT_UNROLL
    for (int pair = 0; pair < 2; ++pair) {  // 16 bytes hold two groups
      Bytes32 both[4];
      transpose_16_bytes(row, at + 4 + 16 * pair, both);
      TT_UNROLL
      for (int k = 0; k < 4; ++k) {
        Bytes32* const code = out.code + 8 * pair + k / 2 * 4 + k % 2;
        code[0] = look_up_bytes(kTwiceE2m1Plus12, both[k] & 15);
        code[2] = look_up_bytes(kTwiceE2m1Plus12, both[k] >> 4);
      }
    }
  }

 private:
  static float scale(uint8_t bits) {
    Float8 s;
    s.bits = bits & 0x7f;
    return s.bits == 0x7f ? 0.0f : static_cast<float>(s);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#pragma GCC diagnostic pop
