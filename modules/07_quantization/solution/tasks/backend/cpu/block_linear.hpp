// Products with packed weights: a row of Q4_0 times activations of 8 bits.
//
// The processor reads 18 bytes for 32 weights, and multiplies small integers. The numbers that the codes
// stand for are never written anywhere: that would cost 128 bytes of traffic for each block of 18.
//
// Task 7.7: dot_q4_0. The given parts of this header are in
// modules/07_quantization/frame/tinytorch/backend/cpu/block_linear.hpp, which includes this file.
#pragma once

#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tinytorch::inline TT_BUILD::backend::cpu {

#if defined(__AVX2__)
// Eight sums, of four products each, over a block: (c - 8) code[i], from its 16 bytes of codes and 32
// activations from -127 to 127. All eight together are the sum of the block.
inline __m256 sums_of_block(const uint8_t* bytes, const int8_t* code) {
  const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  const __m256i c = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(both, 4), both), _mm256_set1_epi8(15));
  const __m256i w = _mm256_sub_epi8(c, _mm256_set1_epi8(8));
  const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(code));
  // The instruction takes one operand unsigned: |w|, times x with the sign of w. A pair is at most 2032.
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  return _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif

// The product of a row of `blocks` blocks of Q4_0 (blocks/pack.hpp) with activations of 8 bits: number i of
// block b is d_b (c - 8), where c is its code, and activation 32 b + i is code[32 b + i] scale[b].
//
//   sum over b of  d_b scale[b] (sum over i of (c - 8) code[32 b + i])
//
// The inner sum is one of integers, the outer one is f32. Reads each byte of the row once, and writes nothing
// to memory.
inline float dot_q4_0(const uint8_t* row, const int8_t* code, const float* scale, int64_t blocks) {
#if defined(__AVX2__)
  __m256 sums = _mm256_setzero_ps();
  for (int64_t b = 0; b < blocks; ++b, row += 18, code += 32) {
    const __m256 factor = _mm256_set1_ps(load_half(row) * scale[b]);
    sums = _mm256_add_ps(sums, _mm256_mul_ps(factor, sums_of_block(row + 2, code)));
  }
  alignas(32) float eight[8];
  _mm256_store_ps(eight, sums);
  float total = 0;
  for (const float s : eight) total += s;
  return total;
#else
  float sum = 0;
  for (int64_t b = 0; b < blocks; ++b, row += 18, code += 32) {
    int32_t products = 0;
    for (int i = 0; i < 16; ++i) {
      const int low = (row[2 + i] & 15) - 8, high = (row[2 + i] >> 4) - 8;
      products += low * code[i] + high * code[i + 16];
    }
    sum += load_half(row) * scale[b] * static_cast<float>(products);
  }
  return sum;
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
