// Blocks of 32 numbers with one scale d in f16: Q8_0, Q8_1, Q4_0, and Q4_1, which has a least number m, too.
//
//   Q8_0   34 bytes: d, 32 codes of 8 bits                     x = d code
//   Q8_1   36 bytes: d, d times the sum of the codes, 32 codes of 8 bits    x = d code
//   Q4_0   18 bytes: d, 16 bytes of two codes                  x = d (code - 8)
//   Q4_1   20 bytes: d, m, 16 bytes of two codes               x = d code + m
//
// Byte i of the 16 holds code i in its low half and code i + 16 in its high half. The bytes are those of the
// ggml library (ggml-common.h), little endian.
#pragma once

#include <tinytorch/backend/cpu/blocks/pack.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace tinytorch::inline TT_BUILD::backend::cpu {

// y[r] = row r times x, for blocks of 32 numbers: the 8 partial sums of a block are `partial(block, codes)`,
// times the scale in its first two bytes.
template <int64_t kRows, int64_t kBytes, class Partial>
void dot_blocks(float* y, const uint8_t* w, int64_t spacing, const Int8Row& x, int64_t blocks,
                Partial&& partial) {
  Floats8 sum[kRows] = {};
  for (int64_t b = 0; b < blocks; ++b, w += kBytes) {
    const Bytes32 codes = load_bytes(x.code + b * kActivationGroup);
    TT_UNROLL
    for (int64_t r = 0; r < kRows; ++r) {
      const uint8_t* const block = w + r * spacing;
      __builtin_prefetch(block + kGemvPrefetchBytes);
      sum[r] = partial(sum[r], block, codes, x.scale[b]);
    }
  }
  for (int64_t r = 0; r < kRows; ++r) y[r] = sum_of_floats(sum[r]);
}

// A block that ends with 32 codes of 8 bits, which begin at byte kCodes.
template <int64_t kCodes>
struct Int8Codes {
  static void unpack(const uint8_t* block, float* x) { unpack_int8_codes(block, kCodes, x); }
  template <int64_t kRows>
  static void dot(float* y, const uint8_t* w, int64_t spacing, const Int8Row& x, int64_t blocks) {
    const auto partial = [](Floats8 sum, const uint8_t* block, Bytes32 codes, float scale) {
      return multiply_add_8(to_floats(dot4_signed(load_bytes(block + kCodes), codes)),
                            spread(load_half(block) * scale), sum);
    };
    dot_blocks<kRows, kCodes + 32>(y, w, spacing, x, blocks, partial);
  }
};

struct Q8_0 : Int8Codes<2> {
  static constexpr const char* kName = "Q8_0";
  static constexpr int32_t kGgufType = 8;
  static constexpr int64_t kBlock = 32, kBytes = 34;

  static void pack(const float* x, uint8_t* block) { pack_q8_0(x, block); }
};

// The format of activations in other programs: the sum serves products with weights that have an offset.
struct Q8_1 : Int8Codes<4> {
  static constexpr const char* kName = "Q8_1";
  static constexpr int32_t kGgufType = 9;
  static constexpr int64_t kBlock = 32, kBytes = 36;

  static void pack(const float* x, uint8_t* block) {
    float largest = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
    const float d = largest / 127, inverse = inverse_or_zero(d);
    int sum = 0;
    for (int i = 0; i < 32; ++i) {
      const auto code = static_cast<int8_t>(std::round(rounded_product(x[i], inverse)));
      block[4 + i] = static_cast<uint8_t>(code), sum += code;
    }
    store_half(block, d), store_half(block + 2, static_cast<float>(sum) * d);
  }
};

struct Q4_0 {
  static constexpr const char* kName = "Q4_0";
  static constexpr int32_t kGgufType = 2;
  static constexpr int64_t kBlock = 32, kBytes = 18;

  static void pack(const float* x, uint8_t* block) { pack_q4_0(x, block); }
  static void unpack(const uint8_t* block, float* x) { unpack_q4_0(block, x); }
  template <int64_t kRows>
  static void dot(float* y, const uint8_t* w, int64_t spacing, const Int8Row& x, int64_t blocks) {
    const Bytes32 eights = spread_byte(8);
    const auto partial = [&](Floats8 sum, const uint8_t* block, Bytes32 codes, float scale) {
      const Ints8 products = dot4(nibbles(block + 2), codes) - dot4(eights, codes);
      return multiply_add_8(to_floats(products), spread(load_half(block) * scale), sum);
    };
    dot_blocks<kRows, kBytes>(y, w, spacing, x, blocks, partial);
  }
};

struct Q4_1 {
  static constexpr const char* kName = "Q4_1";
  static constexpr int32_t kGgufType = 3;
  static constexpr int64_t kBlock = 32, kBytes = 20;

  static void pack(const float* x, uint8_t* block) {
    float least = x[0], largest = x[0];
    for (int i = 1; i < 32; ++i) least = std::min(least, x[i]), largest = std::max(largest, x[i]);
    const float d = (largest - least) / 15, inverse = inverse_or_zero(d);
    store_half(block, d), store_half(block + 2, least);
    const auto code = [&](float v) {
      return static_cast<uint8_t>(std::min(15, static_cast<int>(rounded_product(v - least, inverse) + 0.5f)));
    };
    for (int i = 0; i < 16; ++i) block[4 + i] = static_cast<uint8_t>(code(x[i]) | code(x[i + 16]) << 4);
  }
  static void unpack(const uint8_t* block, float* x) {
    const float d = load_half(block), m = load_half(block + 2);
    for (int i = 0; i < 16; ++i) {
      x[i] = d * static_cast<float>(block[4 + i] & 15) + m;
      x[i + 16] = d * static_cast<float>(block[4 + i] >> 4) + m;
    }
  }
  template <int64_t kRows>
  static void dot(float* y, const uint8_t* w, int64_t spacing, const Int8Row& x, int64_t blocks) {
    const Bytes32 ones = spread_byte(1);
    const auto partial = [&](Floats8 sum, const uint8_t* block, Bytes32 codes, float scale) {
      sum = multiply_add_8(to_floats(dot4(ones, codes)), spread(load_half(block + 2) * scale), sum);
      return multiply_add_8(to_floats(dot4(nibbles(block + 4), codes)), spread(load_half(block) * scale),
                            sum);
    };
    dot_blocks<kRows, kBytes>(y, w, spacing, x, blocks, partial);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#pragma GCC diagnostic pop
