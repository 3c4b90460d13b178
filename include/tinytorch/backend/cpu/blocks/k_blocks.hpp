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
  static constexpr int64_t kBlock = 256, kBytes = 144;

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
      const float scale = d * static_cast<float>(scales[g]), offset = e * static_cast<float>(scales[g + 8]);
      const uint8_t* const codes = block + 16 + g / 2 * 32;
      for (int i = 0; i < 32; ++i)
        x[32 * g + i] = scale * static_cast<float>(codes[i] >> g % 2 * 4 & 15) - offset;
    }
  }
  template <int64_t kRows>
  static void dot(float* y, const uint8_t* w, int64_t spacing, const Int8Row& x, int64_t blocks) {
    Floats8 sum[kRows] = {};
    for (int64_t b = 0; b < blocks; ++b, w += kBytes) {
      const int8_t* const codes = x.code + b * kBlock;
      Floats8 x_scale;
      std::memcpy(&x_scale, x.scale + b * 8, sizeof x_scale);
      const Floats8 x_sum = to_floats(sums_of_32(codes)) * x_scale;
      for (int64_t r = 0; r < kRows; ++r) {
        const uint8_t* const block = w + r * spacing;
        for (int64_t line = 0; line < kBytes; line += 64)
          __builtin_prefetch(block + kGemvPrefetchBytes + line);
        uint8_t scales[16];
        unpack_scales(block + 4, scales);
        const Floats8 s = bytes_to_floats(scales), m = bytes_to_floats(scales + 8);
        sum[r] = multiply_add_8(m * spread(-load_half(block + 2)), x_sum, sum[r]);
        float factor[8];
        const Floats8 factors = s * spread(load_half(block)) * x_scale;
        std::memcpy(factor, &factors, sizeof factor);
        TT_UNROLL
        for (int64_t j = 0; j < 4; ++j) {
          const Bytes32 both = load_bytes(block + 16 + 32 * j);
          const Ints8 low = dot4(both & 15, load_bytes(codes + 64 * j));
          const Ints8 high = dot4(both >> 4, load_bytes(codes + 64 * j + 32));
          sum[r] = multiply_add_8(to_floats(low), spread(factor[2 * j]), sum[r]);
          sum[r] = multiply_add_8(to_floats(high), spread(factor[2 * j + 1]), sum[r]);
        }
      }
    }
    for (int64_t r = 0; r < kRows; ++r) y[r] = sum_of_floats(sum[r]);
  }
};

struct Q6_K {
  static constexpr const char* kName = "Q6_K";
  static constexpr int32_t kGgufType = 14;
  static constexpr int64_t kBlock = 256, kBytes = 210;
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
    for (int g = 0; g < 16; ++g) {
      const int half = g / 8, quarter = g % 8 / 2, first = g % 2 * 16;  // group g begins at 16 g
      const uint8_t* const low = block + 64 * half + quarter % 2 * 32 + first;
      const uint8_t* const high = block + kHigh + 32 * half + first;
      const float scale = d * static_cast<float>(static_cast<int8_t>(block[kScales + g]));
      for (int i = 0; i < 16; ++i) {
        const int code = (low[i] >> quarter / 2 * 4 & 15) | (high[i] >> 2 * quarter & 3) << 4;
        x[16 * g + i] = scale * static_cast<float>(code - 32);
      }
    }
  }
  template <int64_t kRows>
  static void dot(float* y, const uint8_t* w, int64_t spacing, const Int8Row& x, int64_t blocks) {
    Floats8 sum[kRows] = {};
    const Bytes32 offset = spread_byte(32);
    for (int64_t b = 0; b < blocks; ++b, w += kBytes) {
      const int8_t* const codes = x.code + b * kBlock;
      for (int64_t r = 0; r < kRows; ++r) {
        const uint8_t* const block = w + r * spacing;
        for (int64_t line = 0; line < kBytes; line += 64)
          __builtin_prefetch(block + kGemvPrefetchBytes + line);
        const float d = load_half(block + kD);
        TT_UNROLL
        for (int64_t half = 0; half < 2; ++half) {
          const Bytes32 a = load_bytes(block + 64 * half), c = load_bytes(block + 64 * half + 32);
          const Bytes32 high = load_bytes(block + kHigh + 32 * half);
          const Bytes32 code[4] = {(a & 15) | (high << 4 & 48), (c & 15) | (high << 2 & 48),
                                   (a >> 4) | (high & 48), (c >> 4) | (high >> 2 & 48)};
          TT_UNROLL
          for (int64_t k = 0; k < 4; ++k) {
            const int64_t g = 4 * half + k;
            const float factor = d * x.scale[8 * b + g];
            const auto* const scale = reinterpret_cast<const int8_t*>(block + kScales + 2 * g);
            const float s = static_cast<float>(scale[0]) * factor, t = static_cast<float>(scale[1]) * factor;
            const Ints8 products = dot4_signed(code[k] - offset, load_bytes(codes + 32 * g));
            sum[r] = multiply_add_8(to_floats(products), Floats8{s, s, s, s, t, t, t, t}, sum[r]);
          }
        }
      }
    }
    for (int64_t r = 0; r < kRows; ++r) y[r] = sum_of_floats(sum[r]);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#pragma GCC diagnostic pop
