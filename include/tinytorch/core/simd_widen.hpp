// Small integers as one vector of 32-bit ones, from memory: as many as a vector has lanes; and four bits of
// each as the float that a table has for them.
//
// Written with the instruction that does it, because g++ 12 turns a conversion of vectors of bytes into
// sixteen moves (a seventh of the speed in a product with 8-bit weights), and one of 16 bits into four
// instructions with AVX2.
#pragma once

#include <tinytorch/core/simd.hpp>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tinytorch::inline TT_BUILD {

// S: int8_t or uint8_t.
template <class S>
[[gnu::always_inline]] inline Simd<int32_t> widen_bytes(const S* p) {
  constexpr bool kSigned = static_cast<S>(-1) < 0;
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  constexpr __mmask16 kAll = 0xffff;  // without a mask, g++ 12 warns of its own header
  return reinterpret_cast<Simd<int32_t>>(kSigned ? _mm512_maskz_cvtepi8_epi32(kAll, bytes)
                                                 : _mm512_maskz_cvtepu8_epi32(kAll, bytes));
#elif defined(__AVX2__)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return reinterpret_cast<Simd<int32_t>>(kSigned ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes));
#else
  (void)kSigned;
  Simd<int32_t> out{};
  for (int64_t i = 0; i < kLanes<int32_t>; ++i) out[i] = p[i];
  return out;
#endif
}

// The same of unsigned numbers of 16 bits.
[[gnu::always_inline]] inline Simd<uint32_t> widen_words(const void* p) {
#if defined(__AVX512F__)
  constexpr __mmask16 kAll = 0xffff;
  const __m256i words = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  return reinterpret_cast<Simd<uint32_t>>(_mm512_maskz_cvtepu16_epi32(kAll, words));
#elif defined(__AVX2__)
  return reinterpret_cast<Simd<uint32_t>>(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))));
#else
  Beside<uint16_t, uint32_t> words;
  std::memcpy(&words, p, sizeof words);
  return __builtin_convertvector(words, Simd<uint32_t>);
#endif
}

#if defined(__AVX512F__)
inline constexpr bool kFastLookUp = true;  // one instruction, whose index is the last four bits
#else
inline constexpr bool kFastLookUp = false;
#endif

// table[n & 15] of each lane's n.
[[gnu::always_inline]] inline Simd<float> look_up(const float (&table)[16], Simd<int32_t> n) {
#if defined(__AVX512F__)
  constexpr __mmask16 kAll = 0xffff;
  return reinterpret_cast<Simd<float>>(
      _mm512_maskz_permutexvar_ps(kAll, reinterpret_cast<__m512i>(n), _mm512_loadu_ps(table)));
#else
  Simd<float> out{};
  for (int64_t i = 0; i < kLanes<float>; ++i) out[i] = table[n[i] & 15];
  return out;
#endif
}

}  // namespace tinytorch::inline TT_BUILD
