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

#include <tinytorch/backend/cpu/blocks/pack.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace tinytorch::inline TT_BUILD::backend::cpu {

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

  // 8 scales, then 8 offsets.
  [[gnu::always_inline]] static void unpack_scales(const uint8_t* in, uint8_t* out) {
    uint32_t word[3];
    std::memcpy(word, in, sizeof word);
    const uint32_t all[4] = {word[0] & 0x3f3f3f3f, (word[2] & 0x0f0f0f0f) | (word[0] >> 6 & 0x03030303) << 4,
                             word[1] & 0x3f3f3f3f,
                             (word[2] >> 4 & 0x0f0f0f0f) | (word[1] >> 6 & 0x03030303) << 4};
    std::memcpy(out, all, sizeof all);
  }

  static void pack(const float* x, uint8_t* block) { pack_q4_k(x, block); }
  static void unpack(const uint8_t* block, float* x) { unpack_q4_k(block, x); }
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
