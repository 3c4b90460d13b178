// Loads that widen a vector of 8-bit or 16-bit integers to 32-bit lanes, and a lookup of 4-bit codes in a
// table of 16 floats.
//
// They use intrinsics, because g++ 12 compiles the conversion of a vector of bytes to sixteen moves (a
// seventh of the speed in a product with 8-bit weights), and that of 16-bit integers to four instructions
// with AVX2.
#pragma once

#include <tinytorch/core/simd.hpp>
#include <tinytorch/core/simd_intrinsics.hpp>

namespace tinytorch::inline TT_BUILD {

// S is int8_t or uint8_t.
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

// Widens unsigned 16-bit integers to 32 bits.
[[gnu::always_inline]] inline Simd<uint32_t> widen_words(const void* p) {
#if defined(__AVX512F__)
  constexpr __mmask16 kAll = 0xffff;
  const __m256i words = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  return reinterpret_cast<Simd<uint32_t>>(_mm512_maskz_cvtepu16_epi32(kAll, words));
#elif defined(__AVX2__)
  return reinterpret_cast<Simd<uint32_t>>(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))));
#else
  SameLanes<uint16_t, uint32_t> words;
  std::memcpy(&words, p, sizeof words);
  return __builtin_convertvector(words, Simd<uint32_t>);
#endif
}

#if defined(__AVX512F__)
inline constexpr bool kFastLookUp = true;  // one instruction, which uses the low four bits as the index
#else
inline constexpr bool kFastLookUp = false;
#endif

// Lane by lane: table[n & 15].
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
