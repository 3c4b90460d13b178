// Products with packed weights: a row of Q4_0 times activations of 8 bits.
//
// The processor reads 18 bytes for 32 weights, and multiplies small integers. The numbers that the codes
// stand for are never written anywhere: that would cost 128 bytes of traffic for each block of 18.
//
// Task 7.7: dot_q4_0. The given parts of this header are in
// modules/07_quantization/frame/tinytorch/backend/cpu/block_linear.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The product of a row of `blocks` blocks of Q4_0 (blocks/pack.hpp) with activations of 8 bits: number i of
// block b is d_b (c - 8), where c is its code, and activation 32 b + i is code[32 b + i] scale[b].
//
//   sum over b of  d_b scale[b] (sum over i of (c - 8) code[32 b + i])
//
// The inner sum is one of integers, the outer one is f32. Reads each byte of the row once, and writes nothing
// to memory.
inline float dot_q4_0(const uint8_t* row, const int8_t* code, const float* scale, int64_t blocks) {
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
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
