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

#include <tinytorch/backend/cpu/blocks/block_rows.hpp>
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
  static void unpack(const uint8_t* block, float* x) {
    decode_codes<32>(reinterpret_cast<const int8_t*>(block + kCodes), load_half(block), 0, x);
  }
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
  static constexpr int64_t kBlock = 32, kBytes = 36, kUnusedHalf = 2;

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

// 32 codes of 4 bits of 8 rows, which begin at `offset`: those in the low halves of 16 bytes, then the
// others.
[[gnu::always_inline]] inline void transpose_nibbles(const RowPointers& row, int64_t offset, Bytes32* code) {
  Bytes32 both[4];
  transpose_16_bytes(row, offset, both);
  TT_UNROLL
  for (int c = 0; c < 4; ++c) code[c] = both[c] & 15, code[c + 4] = both[c] >> 4;
}

struct Q4_0 {
  static constexpr const char* kName = "Q4_0";
  static constexpr int32_t kGgufType = 2;
  static constexpr int64_t kBlock = 32, kBytes = 18, kScaled = 32;
  static constexpr int kLargest = 15, kZero = 8;
  static constexpr bool kOffset = false;

  static void pack(const float* x, uint8_t* block) { pack_q4_0(x, block); }
  static void unpack(const uint8_t* block, float* x) {
    const Bytes32 codes = nibbles(block + 2);
    decode_codes<32>(reinterpret_cast<const uint8_t*>(&codes), load_half(block), 8, x);
  }
  static void decode(const RowPointers& row, int64_t at, EightRows<Q4_0>& out) {
    transpose_nibbles(row, at + 2, out.code);
    out.scale[0] = gather_halves(row, at + 0);
  }
};

struct Q4_1 {
  static constexpr const char* kName = "Q4_1";
  static constexpr int32_t kGgufType = 3;
  static constexpr int64_t kBlock = 32, kBytes = 20, kScaled = 32;
  static constexpr int kLargest = 15, kZero = 0;
  static constexpr bool kOffset = true;

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
    const Bytes32 codes = nibbles(block + 4);
    decode_with_offset<32>(reinterpret_cast<const uint8_t*>(&codes), load_half(block), load_half(block + 2),
                           x);
  }
  static void decode(const RowPointers& row, int64_t at, EightRows<Q4_1>& out) {
    transpose_nibbles(row, at + 4, out.code);
    out.scale[0] = gather_halves(row, at + 0), out.offset[0] = gather_halves(row, at + 2);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#pragma GCC diagnostic pop
