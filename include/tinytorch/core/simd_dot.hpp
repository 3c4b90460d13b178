// Dot products of elements narrower than 32 bits, accumulated into 32-bit lanes: the inner step of a matrix
// product.
//
// dot4 (four 8-bit integers) is one instruction with AVX512-VNNI. Elsewhere it takes four multiplications, so
// dot2_words (two 16-bit integers) is faster: one multiply instruction since SSE2, and one addition. All are
// exact: sums wrap at 32 bits, and nothing saturates.
//
// dot2 (two bf16) is one instruction with AVX512-BF16, which treats subnormal inputs and results as 0;
// elsewhere it is two multiply-adds and the widening. It is worth using only where it is fast (kFastDot2);
// otherwise the operands should be widened when they are packed.
#pragma once

#include <tinytorch/core/simd.hpp>
#include <tinytorch/core/simd_intrinsics.hpp>

namespace tinytorch::inline TT_BUILD {

#if defined(__AVX512VNNI__)
inline constexpr bool kFastDot4 = true;
#else
inline constexpr bool kFastDot4 = false;
#endif

// sum + a[0] b[0] + ... + a[3] b[3] per lane; the four bytes of a are unsigned, those of b are signed.
[[gnu::always_inline]] inline Simd<int32_t> dot4(Simd<int32_t> sum, Simd<int32_t> a, Simd<int32_t> b) {
#if defined(__AVX512VNNI__)
  return reinterpret_cast<Simd<int32_t>>(_mm512_dpbusd_epi32(
      reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#else
  for (int byte = 0; byte < 4; ++byte) sum += ((a >> (8 * byte)) & 255) * ((b << (24 - 8 * byte)) >> 24);
  return sum;
#endif
}

// sum + a[0] b[0] + a[1] b[1] per lane, for signed 16-bit integers. At most one of the two products may be
// (-2^15) (-2^15).
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

// Fast on Zen 4, Zen 5 and Cooper Lake. On Intel processors that also have AVX512-FP16 (Sapphire and Emerald
// Rapids) the instruction is so slow that matrix products with it take 1.8 times as long as in f32.
#if defined(__AVX512BF16__) && !defined(__AVX512FP16__)
inline constexpr bool kFastDot2 = true;
#else
inline constexpr bool kFastDot2 = false;
#endif

// sum + a[0] b[0] + a[1] b[1] per lane, for bf16; element 0 is in the lower half of the lane.
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
