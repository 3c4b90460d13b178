// Numbers into blocks of few bits, and back: Q8_0, Q4_0 and Q4_K.
//
//   Q8_0   34 bytes for 32 numbers: d, 32 codes of 8 bits                      x = d code
//   Q4_0   18 bytes for 32 numbers: d, 16 bytes of two codes                   x = d (code - 8)
//   Q4_K   144 bytes for 256 numbers: d, e, 12 bytes of scales s and offsets m of 8 groups of 32, 6 bits
//          each, and 128 bytes of two codes                                    x = d s code - e m
//
// d and e are f16. The bytes are those of the ggml library (ggml-common.h), little endian. Unpacking is here
// as plain loops, one number at a time; simple_blocks.hpp and k_blocks.hpp do the same by vectors, and have
// the products with such blocks.
#pragma once

#include <tinytorch/backend/cpu/blocks/block_operands.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The scale d is the largest magnitude / 127. Codes are x times 1 / d, where d is not yet rounded to f16,
// rounded to the nearest integer; halves go away from zero.
inline void pack_q8_0(const float* x, uint8_t* block) {
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float d = largest / 127, inverse = inverse_or_zero(d);
  store_half(block, d);
  for (int i = 0; i < 32; ++i)
    block[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::round(rounded_product(x[i], inverse))));
}

// The 32 numbers of a block whose codes of 8 bits begin at byte `first`: 2 in Q8_0, 4 in Q8_1.
inline void unpack_int8_codes(const uint8_t* block, int64_t first, float* x) {
  const float d = load_half(block);
  for (int i = 0; i < 32; ++i) x[i] = d * static_cast<float>(static_cast<int8_t>(block[first + i]));
}

// d is the number of the largest magnitude / -8, so that it becomes -8 and all 16 codes are used: 1 dB better
// than -7 to 7. The code is x / d + 8, rounded, at most 15. Byte i of the 16 holds code i in its low half and
// code i + 16 in its high half.
inline void pack_q4_0(const float* x, uint8_t* block) {
  float extreme = 0;
  for (int i = 0; i < 32; ++i) extreme = std::fabs(x[i]) > std::fabs(extreme) ? x[i] : extreme;
  const float d = extreme / -8, inverse = inverse_or_zero(d);
  store_half(block, d);
  const auto code = [&](float v) {
    return static_cast<uint8_t>(std::min(15, static_cast<int>(rounded_product(v, inverse) + 8.5f)));
  };
  for (int i = 0; i < 16; ++i) block[2 + i] = static_cast<uint8_t>(code(x[i]) | code(x[i + 16]) << 4);
}

inline void unpack_q4_0(const uint8_t* block, float* x) {
  const float d = load_half(block);
  for (int i = 0; i < 16; ++i) {
    x[i] = d * static_cast<float>((block[2 + i] & 15) - 8);
    x[i + 16] = d * static_cast<float>((block[2 + i] >> 4) - 8);
  }
}

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

// 6-bit scales s and offsets m of 8 groups -> 12 bytes. Bytes 0-3 and 4-7 have the scales and offsets of
// groups 0-3 in their low 6 bits. Those of groups 4-7 have their low 4 bits in bytes 8-11, the scale's below
// the offset's, and their high 2 bits above the 6.
inline void pack_q4_k_scales(const int* s, const int* m, uint8_t* out) {
  for (int g = 0; g < 4; ++g) {
    out[g] = static_cast<uint8_t>(s[g] | s[g + 4] >> 4 << 6);
    out[g + 4] = static_cast<uint8_t>(m[g] | m[g + 4] >> 4 << 6);
    out[g + 8] = static_cast<uint8_t>((s[g + 4] & 15) | (m[g + 4] & 15) << 4);
  }
}
inline void unpack_q4_k_scales(const uint8_t* in, int* s, int* m) {
  for (int g = 0; g < 4; ++g) {
    s[g] = in[g] & 63, m[g] = in[g + 4] & 63;
    s[g + 4] = (in[g + 8] & 15) | in[g] >> 6 << 4;
    m[g + 4] = in[g + 8] >> 4 | in[g + 4] >> 6 << 4;
  }
}

// Each group has a scale and an offset of its own (fit_scale_and_offset). The largest of each becomes 63, and
// d and e are what a step is worth. The code of x is (x + e m) / (d s), with d, e, s and m as they are
// stored. Byte i of the 128 holds codes of groups 2 j and 2 j + 1, with j = i / 32: the first in its low
// half.
inline void pack_q4_k(const float* x, uint8_t* block) {
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
  pack_q4_k_scales(s, m, block + 4);
  const auto code = [&](int i) {
    const int g = i / 32;
    const float inverse = inverse_or_zero(d * static_cast<float>(s[g]));
    return nearest_code(rounded_product(x[i] + rounded_product(e, static_cast<float>(m[g])), inverse), 0, 15);
  };
  for (int i = 0; i < 128; ++i) {
    const int low = i / 32 * 64 + i % 32;
    block[16 + i] = static_cast<uint8_t>(code(low) | code(low + 32) << 4);
  }
}

inline void unpack_q4_k(const uint8_t* block, float* x) {
  const float d = load_half(block), e = load_half(block + 2);
  int s[8], m[8];
  unpack_q4_k_scales(block + 4, s, m);
  for (int g = 0; g < 8; ++g) {
    const float scale = d * static_cast<float>(s[g]), offset = e * static_cast<float>(m[g]);
    const uint8_t* const codes = block + 16 + g / 2 * 32;
    for (int i = 0; i < 32; ++i)
      x[32 * g + i] = scale * static_cast<float>(codes[i] >> g % 2 * 4 & 15) - offset;
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
