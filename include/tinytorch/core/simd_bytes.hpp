// Vectors of 32 bytes and their dot products: the inner step of products of packed weights, whose blocks have
// 32 codes, or which are multiplied as eight rows at a time, four codes from each row. The vectors have this
// size on every processor, since wider ones would span blocks.
#pragma once

#include <algorithm>
#include <tinytorch/core/dtype.hpp>
#include <tinytorch/core/simd.hpp>
#include <tinytorch/core/simd_intrinsics.hpp>

// Without AVX, g++ notes that vectors of 32 bytes would be passed in another way with it. No such function
// has a symbol: all are inlined.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace tinytorch::inline TT_BUILD {

using Bytes32 = VectorOf<uint8_t, 32>::type;
using Ints8 = VectorOf<int32_t, 32>::type;
using Words8 = VectorOf<uint32_t, 32>::type;
using Floats8 = VectorOf<float, 32>::type;

[[gnu::always_inline]] inline Bytes32 load_bytes(const void* p) {
  Bytes32 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
[[gnu::always_inline]] inline Floats8 to_floats(Ints8 v) { return __builtin_convertvector(v, Floats8); }
// 8 bytes, uint8_t or int8_t.
template <class Byte>
[[gnu::always_inline]] inline Floats8 bytes_to_floats(const Byte* p) {
#if defined(__AVX2__)  // g++ converts a vector of bytes one by one
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return reinterpret_cast<Floats8>(
      _mm256_cvtepi32_ps(std::is_signed_v<Byte> ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes)));
#else
  Floats8 v;
  for (int i = 0; i < 8; ++i) v[i] = static_cast<float>(p[i]);
  return v;
#endif
}
[[gnu::always_inline]] inline Bytes32 spread_byte(uint8_t x) {  // nvcc crashes at Bytes32{} + x
  Bytes32 v;
  std::memset(&v, x, sizeof v);
  return v;
}
[[gnu::always_inline]] inline Floats8 spread(float x) { return x - Floats8{}; }
[[gnu::always_inline]] inline Words8 spread_word(uint32_t x) { return x + Words8{}; }

// a b + c with one rounding where the processor has such an instruction. The compiler is not free to round
// twice in one copy of a loop and once in another, so equal rows give equal bits.
[[gnu::always_inline]] inline Floats8 multiply_add_8(Floats8 a, Floats8 b, Floats8 c) {
#if defined(__FMA__) && defined(__AVX__)
  return reinterpret_cast<Floats8>(
      _mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#else
  return a * b + c;
#endif
}

// Lane i is a[4 i] b[4 i] + ... + a[4 i + 3] b[4 i + 3]. The bytes of a are unsigned and at most 128, those
// of b are signed and at least -127, so that the sums of two products fit 16 bits: the result is exact.
[[gnu::always_inline]] inline Ints8 dot4(Bytes32 a, Bytes32 b) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  return reinterpret_cast<Ints8>(_mm256_dpbusd_epi32(_mm256_setzero_si256(), reinterpret_cast<__m256i>(a),
                                                     reinterpret_cast<__m256i>(b)));
#elif defined(__AVX2__)
  const __m256i pairs = _mm256_maddubs_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b));
  return reinterpret_cast<Ints8>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#else
  Ints8 sum{};
  for (int i = 0; i < 32; ++i) sum[i / 4] += static_cast<int>(a[i]) * static_cast<int8_t>(b[i]);
  return sum;
#endif
}
// dot4 with signed bytes of a, which may be -128.
[[gnu::always_inline]] inline Ints8 dot4_signed(Bytes32 a, Bytes32 b) {
#if defined(__AVX2__)
  const auto x = reinterpret_cast<__m256i>(a);
  return dot4(reinterpret_cast<Bytes32>(_mm256_abs_epi8(x)),
              reinterpret_cast<Bytes32>(_mm256_sign_epi8(reinterpret_cast<__m256i>(b), x)));
#else
  Ints8 sum{};
  for (int i = 0; i < 32; ++i) sum[i / 4] += static_cast<int8_t>(a[i]) * static_cast<int8_t>(b[i]);
  return sum;
#endif
}

// 16 bytes as 32 numbers from 0 to 15: the low halves, then the high ones.
[[gnu::always_inline]] inline Bytes32 nibbles(const void* p) {
#if defined(__AVX2__)
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
  const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(bytes), _mm_srli_epi16(bytes, 4), 1);
  return reinterpret_cast<Bytes32>(_mm256_and_si256(both, _mm256_set1_epi8(15)));
#else
  Bytes32 v;
  for (int i = 0; i < 16; ++i) {
    const auto byte = static_cast<const uint8_t*>(p)[i];
    v[i] = byte & 15, v[i + 16] = byte >> 4;
  }
  return v;
#endif
}

// table[n[i]] for each byte of n, which is at most 15.
[[gnu::always_inline]] inline Bytes32 look_up_bytes(const int8_t (&table)[16], Bytes32 n) {
#if defined(__AVX2__)
  const __m128i t = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return reinterpret_cast<Bytes32>(
      _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), reinterpret_cast<__m256i>(n)));
#else
  Bytes32 out;
  for (int i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>(table[n[i]]);
  return out;
#endif
}

using RowPointers = const uint8_t* [8];  // where 8 rows begin

// Lane r is the 4 bytes that begin at p[r] + offset, low byte first.
[[gnu::always_inline]] inline Ints8 gather_words(const RowPointers& p, int64_t offset) {
  int32_t word[8];
  for (int r = 0; r < 8; ++r) std::memcpy(&word[r], p[r] + offset, 4);
  return Ints8{word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]};
}

// The 16 bytes that begin at p[r] + offset, for 8 rows: out[c] holds bytes 4 c to 4 c + 3 of row 0, then
// those of row 1, and so on.
[[gnu::always_inline]] inline void transpose_16_bytes(const RowPointers& p, int64_t offset, Bytes32* out) {
#if defined(__AVX2__)
  __m256i two[4];  // row r in the low half, row r + 4 in the high one
  TT_UNROLL
  for (int r = 0; r < 4; ++r) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p[r] + offset));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p[r + 4] + offset));
    two[r] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
  }
  const __m256i a = _mm256_unpacklo_epi32(two[0], two[1]), b = _mm256_unpacklo_epi32(two[2], two[3]);
  const __m256i c = _mm256_unpackhi_epi32(two[0], two[1]), d = _mm256_unpackhi_epi32(two[2], two[3]);
  out[0] = reinterpret_cast<Bytes32>(_mm256_unpacklo_epi64(a, b));
  out[1] = reinterpret_cast<Bytes32>(_mm256_unpackhi_epi64(a, b));
  out[2] = reinterpret_cast<Bytes32>(_mm256_unpacklo_epi64(c, d));
  out[3] = reinterpret_cast<Bytes32>(_mm256_unpackhi_epi64(c, d));
#else
  for (int k = 0; k < 4; ++k) {
    const Ints8 words = gather_words(p, offset + 4 * k);
    std::memcpy(&out[k], &words, sizeof words);
  }
#endif
}

// Lane r is the sum over c < kCount and k < 4 of code[c][4 r + k] x[4 c + k]. The codes are unsigned and at
// most kLargest, which is at most 128, and x is at least -127: the result is exact. Without an instruction
// for it, sums are kept in 16 bits as long as none can overflow.
template <int64_t kCount, int kLargest>
[[gnu::always_inline]] inline Ints8 dot_words(const Bytes32* code, const int8_t* x) {
  static_assert(kLargest > 0 && kLargest <= 128);
#if defined(__AVX2__)
  const auto word = [&](int64_t c) {
    int32_t four;
    std::memcpy(&four, x + 4 * c, sizeof four);
    return _mm256_set1_epi32(four);
  };
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  __m256i sum = _mm256_setzero_si256();
  TT_UNROLL
  for (int64_t c = 0; c < kCount; ++c)
    sum = _mm256_dpbusd_epi32(sum, reinterpret_cast<__m256i>(code[c]), word(c));
  return reinterpret_cast<Ints8>(sum);
#else
  constexpr int64_t kRun = std::min<int64_t>(kCount, 32767 / (2 * 127 * kLargest));
  Ints8 sum{};
  TT_UNROLL
  for (int64_t c = 0; c < kCount; c += kRun) {
    __m256i pairs = _mm256_maddubs_epi16(reinterpret_cast<__m256i>(code[c]), word(c));
    for (int64_t k = c + 1; k < std::min(c + kRun, kCount); ++k)
      pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(reinterpret_cast<__m256i>(code[k]), word(k)));
    sum += reinterpret_cast<Ints8>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  return sum;
#endif
#else
  Ints8 sum{};
  for (int64_t c = 0; c < kCount; ++c)
    for (int i = 0; i < 32; ++i) sum[i / 4] += static_cast<int>(code[c][i]) * x[4 * c + i % 4];
  return sum;
#endif
}

[[gnu::always_inline]] inline float sum_of_floats(Floats8 v) {
  float half[4];
  for (int i = 0; i < 4; ++i) half[i] = v[i] + v[i + 4];
  return (half[0] + half[2]) + (half[1] + half[3]);
}

// The f16 number at p, which need not be aligned.
[[gnu::always_inline]] inline float load_half(const void* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
#if defined(__F16C__)
  return _cvtsh_ss(bits);
#else
  return f16_bits_to_float(bits);
#endif
}
// The f16 numbers at p[r] + offset.
[[gnu::always_inline]] inline Floats8 gather_halves(const RowPointers& p, int64_t offset) {
#if defined(__F16C__)
  uint16_t h[8];
  for (int r = 0; r < 8; ++r) std::memcpy(&h[r], p[r] + offset, 2);
  const auto bits = [&](int r) { return static_cast<short>(h[r]); };
  return reinterpret_cast<Floats8>(_mm256_cvtph_ps(
      _mm_setr_epi16(bits(0), bits(1), bits(2), bits(3), bits(4), bits(5), bits(6), bits(7))));
#else
  Floats8 v;
  for (int r = 0; r < 8; ++r) v[r] = load_half(p[r] + offset);
  return v;
#endif
}
inline void store_half(void* p, float x) {
  const uint16_t bits = float_to_f16_bits(x);
  std::memcpy(p, &bits, sizeof bits);
}

}  // namespace tinytorch::inline TT_BUILD
#pragma GCC diagnostic pop
