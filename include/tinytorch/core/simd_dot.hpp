// Sums of products of numbers narrower than a 32-bit lane, the step of a matrix product of them.
//
// dot4, four bytes: one instruction of AVX-512 with VNNI; elsewhere they are multiplied one of four at a
// time, and dot2_words, two numbers of 16 bits, is the faster way: one instruction since SSE2, and one to
// add. Exact in all: sums wrap at 32 bits, nothing saturates.
//
// dot2, two bf16: one instruction with AVX512-BF16, which takes subnormal numbers, given or formed, for 0;
// elsewhere two multiply-adds and the widening. Worth using only where it is fast (kFastDot2); else widening
// while packing is better.
#pragma once

#include <tinytorch/core/simd.hpp>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tinytorch::inline TT_BUILD {

#if defined(__AVX512VNNI__)
inline constexpr bool kFastDot4 = true;
#else
inline constexpr bool kFastDot4 = false;
#endif

// sum + a[0] b[0] + ... + a[3] b[3], the bytes of a lane unsigned in a and signed in b.
[[gnu::always_inline]] inline Simd<int32_t> dot4(Simd<int32_t> sum, Simd<int32_t> a, Simd<int32_t> b) {
#if defined(__AVX512VNNI__)
  return reinterpret_cast<Simd<int32_t>>(_mm512_dpbusd_epi32(
      reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#else
  for (int byte = 0; byte < 4; ++byte) sum += ((a >> (8 * byte)) & 255) * ((b << (24 - 8 * byte)) >> 24);
  return sum;
#endif
}

// sum + a[0] b[0] + a[1] b[1], the signed numbers of 16 bits of a lane. Not both pairs may be -2^15 times
// itself.
[[gnu::always_inline]] inline Simd<int32_t> dot2_words(Simd<int32_t> sum, Simd<int32_t> a, Simd<int32_t> b) {
#if defined(__AVX512BW__)
  return sum + reinterpret_cast<Simd<int32_t>>(
                   _mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__) && !defined(__AVX512F__)
  return sum + reinterpret_cast<Simd<int32_t>>(
                   _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__) && !defined(__AVX__)
  return sum + reinterpret_cast<Simd<int32_t>>(
                   _mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return sum + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

// Zen 4 and 5 and Cooper Lake. On Intel's processors with AVX512-FP16 besides (Sapphire and Emerald Rapids)
// the instruction is so slow that products through it take 1.8 times as long as those of f32.
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
