// Sums of products of numbers narrower than a 32-bit lane, the step of a matrix product of them.
//
// dot4, four bytes: AVX-512 with VNNI does it in one instruction; elsewhere bytes are widened to 16 bits and added in
// pairs (AVX2, AVX-512), or multiplied one of four at a time. Exact in all: sums wrap at 32 bits, nothing saturates.
//
// dot2, two bf16: one instruction with AVX512-BF16, which takes subnormal numbers, given or formed, for 0; elsewhere two
// multiply-adds and the widening. Worth using only where it is fast (kFastDot2); else widening while packing is better.
#pragma once

#include <tinytorch/core/simd.hpp>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tinytorch::inline TT_BUILD {

// sum + a[0] b[0] + ... + a[3] b[3], the bytes of a lane unsigned in a and signed in b.
[[gnu::always_inline]] inline Simd<int32_t> dot4(Simd<int32_t> sum, Simd<int32_t> a, Simd<int32_t> b) {
#if defined(__AVX512VNNI__)
  return reinterpret_cast<Simd<int32_t>>(_mm512_dpbusd_epi32(
      reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX512BW__)
  const __m512i low = _mm512_set1_epi16(0xff), x = reinterpret_cast<__m512i>(a),
                y = reinterpret_cast<__m512i>(b);
  const __m512i even =
      _mm512_madd_epi16(_mm512_and_si512(x, low), _mm512_srai_epi16(_mm512_slli_epi16(y, 8), 8));
  const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(x, 8), _mm512_srai_epi16(y, 8));
  return sum + reinterpret_cast<Simd<int32_t>>(_mm512_add_epi32(even, odd));
#elif defined(__AVX2__) && !defined(__AVX512F__)
  const __m256i low = _mm256_set1_epi16(0xff), x = reinterpret_cast<__m256i>(a),
                y = reinterpret_cast<__m256i>(b);
  const __m256i even =
      _mm256_madd_epi16(_mm256_and_si256(x, low), _mm256_srai_epi16(_mm256_slli_epi16(y, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(y, 8));
  return sum + reinterpret_cast<Simd<int32_t>>(_mm256_add_epi32(even, odd));
#else
  for (int byte = 0; byte < 4; ++byte) sum += ((a >> (8 * byte)) & 255) * ((b << (24 - 8 * byte)) >> 24);
  return sum;
#endif
}

// Zen 4 and 5 and Cooper Lake. On Intel's processors with AVX512-FP16 besides (Sapphire and Emerald Rapids) the instruction
// is so slow that products through it take 1.8 times as long as those of f32.
#if defined(__AVX512BF16__) && !defined(__AVX512FP16__)
inline constexpr bool kFastDot2 = true;
#else
inline constexpr bool kFastDot2 = false;
#endif

// sum + a[0] b[0] + a[1] b[1], the bf16 of a lane; element 0 in the lane's lower half.
[[gnu::always_inline]] inline Simd<float> dot2(Simd<float> sum, Simd<int32_t> a, Simd<int32_t> b) {
#if defined(__AVX512BF16__)
  return reinterpret_cast<Simd<float>>(_mm512_dpbf16_ps(
      reinterpret_cast<__m512>(sum), reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b)));
#else
  const auto even = [](Simd<int32_t> v) { return reinterpret_cast<Simd<float>>(v << 16); };
  const auto odd = [](Simd<int32_t> v) { return reinterpret_cast<Simd<float>>(v & -0x10000); };
  return sum + even(a) * even(b) + odd(a) * odd(b);
#endif
}

}  // namespace tinytorch::inline TT_BUILD
