// Blocks of 256 numbers whose groups have scales of few bits, which share a scale in f16: Q4_K and Q6_K.
//
//   Q4_K   144 bytes: d, e, 12 bytes of scales s and offsets m of 8 groups of 32, 6 bits each, and 128 bytes
//          of two codes                                                     x = d s code - e m
//   Q6_K   210 bytes: 128 bytes of the low 4 bits of two codes, 64 bytes of the high 2 bits of four codes,
//          scales s of 16 groups of 16, 8 bits each, and d                  x = d s (code - 32)
//
// The bytes are those of the ggml library (ggml-common.h), little endian. Packing searches the scale of each
// group that has the least squared error. Its sums are exact or rounded in one order, so that every build
// packs the same bytes.
#pragma once

#include <tinytorch/backend/cpu/blocks/block_rows.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace tinytorch::inline TT_BUILD::backend::cpu {

// The integer nearest to v, from `low` to `high`. The magnitude of v is below 2^31.
[[gnu::always_inline]] inline int nearest_code(float v, int low, int high) {
  return std::clamp(static_cast<int>(v + (v < 0 ? -0.5f : 0.5f)), low, high);
}

// Sums over a group of numbers x and codes c: of c, of c^2 and of x c. Products of a float and a code are
// exact in double.
struct CodeSums {
  int c = 0, cc = 0;
  double xc = 0;

  template <int kN>
  static CodeSums of(const float* x, float subtract, float inverse, int low, int high) {
    int code[kN];
    for (int i = 0; i < kN; ++i) code[i] = nearest_code(rounded_product(x[i] - subtract, inverse), low, high);
    CodeSums s;
    for (int i = 0; i < kN; ++i) s.c += code[i], s.cc += code[i] * code[i];
    double part[4] = {};
    for (int i = 0; i < kN; i += 4) {
      TT_UNROLL
      for (int k = 0; k < 4; ++k) part[k] += double{x[i + k]} * code[i + k];
    }
    s.xc = (part[0] + part[1]) + (part[2] + part[3]);
    return s;
  }
};

struct ScaleAndOffset {
  float scale = 0, offset = 0;  // x = scale code + offset
};

// The best scale and offset of 32 numbers for codes from 0 to 15, where the offset is at most 0. For 21
// scales near range / 15, the codes are those of that scale, and scale and offset follow from the codes by
// least squares. The squared error is sum x^2 - gain, so the largest gain wins.
inline ScaleAndOffset fit_scale_and_offset(const float* x) {
  float least = 0, largest = x[0];
  double sum = 0;
  for (int i = 0; i < 32; ++i)
    least = std::min(least, x[i]), largest = std::max(largest, x[i]), sum += double{x[i]};
  ScaleAndOffset best{0, least};
  const float inverse = inverse_or_zero(largest - least);
  if (inverse == 0) return best;
  double best_gain = -1;
  for (int step = 0; step <= 20; ++step) {
    const float levels = static_cast<float>(140 + step) / 10;
    const CodeSums s = CodeSums::of<32>(x, least, rounded_product(levels, inverse), 0, 15);
    const int determinant = 32 * s.cc - s.c * s.c;  // 0 if all codes are equal
    double scale = (32 * s.xc - rounded_product<double>(s.c, sum)) / std::max(1, determinant);
    double offset =
        (rounded_product<double>(s.cc, sum) - rounded_product<double>(s.c, s.xc)) / std::max(1, determinant);
    if (determinant == 0 || offset > 0) offset = 0, scale = s.xc / s.cc;
    const double gain = rounded_product(scale, s.xc) + rounded_product(offset, sum);
    if (gain <= best_gain || scale <= 0) continue;
    best_gain = gain;
    best = {static_cast<float>(scale), static_cast<float>(offset)};
  }
  return best;
}

// The best scale of 16 numbers for codes from -32 to 31, in the same way: the number of the largest magnitude
// becomes -32, or nearly.
inline float fit_scale(const float* x) {
  float extreme = 0;
  for (int i = 0; i < 16; ++i) extreme = std::fabs(x[i]) > std::fabs(extreme) ? x[i] : extreme;
  const float inverse = inverse_or_zero(extreme);
  if (inverse == 0) return 0;
  double best_gain = -1;
  float best = 0;
  for (int step = -9; step <= 9; ++step) {
    const float levels = -static_cast<float>(320 + step) / 10;
    const CodeSums s = CodeSums::of<16>(x, 0, rounded_product(levels, inverse), -32, 31);
    const double scale = s.xc / s.cc, gain = rounded_product(scale, s.xc);
    if (gain <= best_gain) continue;
    best_gain = gain, best = static_cast<float>(scale);
  }
  return best;
}

struct Q4_K {
  static constexpr const char* kName = "Q4_K";
  static constexpr int32_t kGgufType = 12;
  static constexpr int64_t kBlock = 256, kBytes = 144, kScaled = 32;
  static constexpr int kLargest = 15, kZero = 0;
  static constexpr bool kOffset = true;

  // Bytes 0-3 and 4-7 have the scales and offsets of groups 0-3 in their low 6 bits. Those of groups 4-7 have
  // their low 4 bits in bytes 8-11, and their high 2 bits above the 6.
  static void pack_scales(const int* s, const int* m, uint8_t* out) {
    for (int g = 0; g < 4; ++g) {
      out[g] = static_cast<uint8_t>(s[g] | s[g + 4] >> 4 << 6);
      out[g + 4] = static_cast<uint8_t>(m[g] | m[g + 4] >> 4 << 6);
      out[g + 8] = static_cast<uint8_t>((s[g + 4] & 15) | (m[g + 4] & 15) << 4);
    }
  }
  // 8 scales, then 8 offsets.
  [[gnu::always_inline]] static void unpack_scales(const uint8_t* in, uint8_t* out) {
    uint32_t word[3];
    std::memcpy(word, in, sizeof word);
    const uint32_t all[4] = {word[0] & 0x3f3f3f3f, (word[2] & 0x0f0f0f0f) | (word[0] >> 6 & 0x03030303) << 4,
                             word[1] & 0x3f3f3f3f,
                             (word[2] >> 4 & 0x0f0f0f0f) | (word[1] >> 6 & 0x03030303) << 4};
    std::memcpy(out, all, sizeof all);
  }

  static void pack(const float* x, uint8_t* block) {
    ScaleAndOffset fit[8];
    float scale = 0, offset = 0;
    for (int g = 0; g < 8; ++g) {
      fit[g] = fit_scale_and_offset(x + 32 * g);
      scale = std::max(scale, fit[g].scale), offset = std::max(offset, -fit[g].offset);
    }
    store_half(block, scale / 63), store_half(block + 2, offset / 63);
    const float d = load_half(block), e = load_half(block + 2);
    const float inverse_d = inverse_or_zero(d), inverse_e = inverse_or_zero(e);
    int s[8], m[8];
    for (int g = 0; g < 8; ++g) {
      s[g] = nearest_code(rounded_product(fit[g].scale, inverse_d), 0, 63);
      m[g] = nearest_code(rounded_product(-fit[g].offset, inverse_e), 0, 63);
    }
    pack_scales(s, m, block + 4);
    const auto code = [&](int i) {
      const int g = i / 32;
      const float inverse = inverse_or_zero(d * static_cast<float>(s[g]));
      return nearest_code(rounded_product(x[i] + rounded_product(e, static_cast<float>(m[g])), inverse), 0,
                          15);
    };
    for (int i = 0; i < 128; ++i) {
      const int low = i / 32 * 64 + i % 32;
      block[16 + i] = static_cast<uint8_t>(code(low) | code(low + 32) << 4);
    }
  }
  static void unpack(const uint8_t* block, float* x) {
    const float d = load_half(block), e = load_half(block + 2);
    uint8_t scales[16];
    unpack_scales(block + 4, scales);
    for (int g = 0; g < 8; ++g) {
      const Bytes32 both = load_bytes(block + 16 + g / 2 * 32);
      const Bytes32 codes = g % 2 == 0 ? both & 15 : both >> 4;
      decode_with_offset<32>(reinterpret_cast<const uint8_t*>(&codes), d * static_cast<float>(scales[g]),
                             -e * static_cast<float>(scales[g + 8]), x + 32 * g);
    }
  }
  static void decode(const RowPointers& row, int64_t at, EightRows<Q4_K>& out) {
    const Floats8 d = gather_halves(row, at + 0), e = -gather_halves(row, at + 2);
    const Words8 a = words(row, at + 4), b = words(row, at + 8), c = words(row, at + 12);
    const Words8 scales[2] = {a & 0x3f3f3f3f, (c & 0x0f0f0f0f) | (a >> 6 & 0x03030303) << 4};
    const Words8 offsets[2] = {b & 0x3f3f3f3f, (c >> 4 & 0x0f0f0f0f) | (b >> 6 & 0x03030303) << 4};
    TT_UNROLL
    for (int g = 0; g < 8; ++g) {
      out.scale[g] = d * byte_to_float(scales[g / 4], g % 4);
      out.offset[g] = e * byte_to_float(offsets[g / 4], g % 4);
    }
    TT_UNROLL
    for (int part = 0; part < 8; ++part) {
      Bytes32 both[4];
      transpose_16_bytes(row, at + 16 + 16 * part, both);
      Bytes32* const low = out.code + part / 2 * 16 + part % 2 * 4;
      TT_UNROLL
      for (int k = 0; k < 4; ++k) low[k] = both[k] & 15, low[k + 8] = both[k] >> 4;
    }
  }

 private:
  static Words8 words(const RowPointers& row, int64_t offset) {
    return reinterpret_cast<Words8>(gather_words(row, offset));
  }
  static Floats8 byte_to_float(Words8 v, int byte) {
    return to_floats(reinterpret_cast<Ints8>(v >> 8 * byte & 255));
  }
};

struct Q6_K {
  static constexpr const char* kName = "Q6_K";
  static constexpr int32_t kGgufType = 14;
  static constexpr int64_t kBlock = 256, kBytes = 210, kScaled = 16;
  static constexpr int kLargest = 63, kZero = 32;
  static constexpr bool kOffset = false;
  static constexpr int64_t kHigh = 128, kScales = 192, kD = 208;  // where the parts of a block begin

  static void pack(const float* x, uint8_t* block) {
    float fit[16], extreme = 0;
    for (int g = 0; g < 16; ++g) {
      fit[g] = fit_scale(x + 16 * g);
      extreme = std::fabs(fit[g]) > std::fabs(extreme) ? fit[g] : extreme;
    }
    store_half(block + kD, extreme / -128);
    const float d = load_half(block + kD), inverse_d = inverse_or_zero(d);
    uint8_t code[256];
    for (int g = 0; g < 16; ++g) {
      const int s = nearest_code(rounded_product(fit[g], inverse_d), -128, 127);
      block[kScales + g] = static_cast<uint8_t>(s);
      const float inverse = inverse_or_zero(d * static_cast<float>(s));
      for (int i = 16 * g; i < 16 * g + 16; ++i)
        code[i] = static_cast<uint8_t>(nearest_code(rounded_product(x[i], inverse), -32, 31) + 32);
    }
    for (int half = 0; half < 2; ++half) {
      const uint8_t* const c = code + 128 * half;
      for (int i = 0; i < 64; ++i)
        block[64 * half + i] = static_cast<uint8_t>((c[i] & 15) | (c[i + 64] & 15) << 4);
      for (int i = 0; i < 32; ++i) {
        block[kHigh + 32 * half + i] =
            static_cast<uint8_t>(c[i] >> 4 | c[i + 32] >> 4 << 2 | c[i + 64] >> 4 << 4 | c[i + 96] >> 4 << 6);
      }
    }
  }
  static void unpack(const uint8_t* block, float* x) {
    const float d = load_half(block + kD);
    const auto* const scale = reinterpret_cast<const int8_t*>(block + kScales);
    for (int half = 0; half < 2; ++half) {
      Bytes32 code[4];
      codes_of_half(load_bytes(block + 64 * half), load_bytes(block + 64 * half + 32),
                    load_bytes(block + kHigh + 32 * half), code, 1);
      for (int g = 8 * half; g < 8 * half + 8; ++g) {
        decode_codes<16>(reinterpret_cast<const uint8_t*>(code) + 16 * (g % 8),
                         d * static_cast<float>(scale[g]), 32, x + 16 * g);
      }
    }
  }
  // Four vectors of codes, `spacing` apart, from two vectors of low bits and one of high bits.
  [[gnu::always_inline]] static void codes_of_half(Bytes32 a, Bytes32 c, Bytes32 high, Bytes32* code,
                                                   int64_t spacing) {
    code[0] = (a & 15) | (high << 4 & 48), code[spacing] = (c & 15) | (high << 2 & 48);
    code[2 * spacing] = (a >> 4) | (high & 48), code[3 * spacing] = (c >> 4) | (high >> 2 & 48);
  }
  static void decode(const RowPointers& row, int64_t at, EightRows<Q6_K>& out) {
    const Floats8 d = gather_halves(row, at + kD);
    Bytes32 scales[4];
    transpose_16_bytes(row, at + kScales, scales);
    TT_UNROLL
    for (int g = 0; g < 16; ++g) {
      const auto s = reinterpret_cast<Ints8>(reinterpret_cast<Words8>(scales[g / 4]) << (24 - g % 4 * 8));
      out.scale[g] = d * to_floats(s >> 24);
    }
    TT_UNROLL
    for (int part = 0; part < 4; ++part) {  // 16 bytes of the high bits, which serve 64 codes
      const int half = part / 2, first = part % 2;
      Bytes32 a[4], c[4], high[4];
      transpose_16_bytes(row, at + 64 * half + 16 * first, a);
      transpose_16_bytes(row, at + 64 * half + 16 * first + 32, c);
      transpose_16_bytes(row, at + kHigh + 16 * part, high);
      TT_UNROLL
      for (int k = 0; k < 4; ++k) codes_of_half(a[k], c[k], high[k], out.code + 32 * half + 4 * first + k, 8);
    }
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#pragma GCC diagnostic pop
