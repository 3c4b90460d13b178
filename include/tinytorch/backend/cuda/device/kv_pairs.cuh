// Numbers of 8 and 4 bits as pairs of bf16, the operands of tensor cores. Every such number is a bf16.
//
//   KvPairs<int8_t>::widen(pairs, word);    bytes 0 and 2 of the word, then bytes 1 and 3
//   KvPairs<Int4>::widen(pairs, word);      their low halves likewise, then their high halves
//
// The pairs take every second byte, because a mask selects them without a permutation: operands of q have the
// same order of columns (place_in_16).
#pragma once

#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/backend/kv_format.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The place of number d of 16 in the order of the pairs. Lane t of four has the bytes 4 t to 4 t + 3; in the
// operands of the tensor cores it has places 2 t and 2 t + 1, then 2 t + 8 and 2 t + 9.
__device__ __forceinline__ int place_in_16(int d) { return d / 4 * 2 + d % 4 / 2 + d % 2 * 8; }

// a b + c of two bf16, which are packed into a word.
__device__ __forceinline__ unsigned multiply_add_pair(unsigned a, unsigned b, unsigned c) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned out;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
#else
  unsigned out = 0;
  for (int i = 0; i < 2; ++i) {
    const auto part = [i](unsigned x) { return std::bit_cast<float>(x >> 16 * i << 16); };
    const BFloat16 sum(fmaf(part(a), part(b), part(c)));
    out |= static_cast<unsigned>(sum.bits) << 16 * i;
  }
  return out;
#endif
}
// x & mask | bits as one instruction: the compiler makes two of them if both are constants.
__device__ __forceinline__ unsigned and_or(unsigned x, unsigned mask, unsigned bits) {
#ifdef __CUDA_ARCH__
  unsigned out;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(out) : "r"(x), "r"(mask), "r"(bits));
  return out;
#else
  return (x & mask) | bits;
#endif
}
inline constexpr unsigned kOnePair = 0x3f803f80u, kMinusOnePair = 0xbf80bf80u;

template <class K>
struct KvPairs;

// A number b is (128 + its low 7 bits) - (128 + its sign bit), where bf16 has 128 + n for n < 128 as 0x4300 +
// n, and 256 as 0x4380.
template <>
struct KvPairs<int8_t> {
  static constexpr int kPairs = 2;
  static __device__ __forceinline__ void widen(unsigned (&out)[kPairs], unsigned word) {
    out[0] = even(word), out[1] = even(word >> 8);
  }

 private:
  static __device__ __forceinline__ unsigned even(unsigned word) {
    const unsigned low = and_or(word, 0x007f007fu, 0x43004300u),
                   sign = and_or(word, 0x00800080u, 0x43004300u);
    return multiply_add_pair(sign, kMinusOnePair, low);
  }
};

// The exponent of bf16 has a bias that is larger by 120. The product is exact for subnormal numbers too.
template <>
struct KvPairs<Float8> {
  static constexpr int kPairs = 2;
  static __device__ __forceinline__ void widen(unsigned (&out)[kPairs], unsigned word) {
    out[0] = of(word << 8, word << 4);
    out[1] = of(word, word >> 4);
  }

 private:
  static __device__ __forceinline__ unsigned of(unsigned sign, unsigned magnitude) {
    const unsigned zero = sign & 0x80008000u;
    return multiply_add_pair(and_or(magnitude, 0x07f007f0u, zero), 0x7b807b80u, zero);  // 2^120; + 0 or - 0
  }
};

// A number n of 0 to 15 stands for n - 8: (128 + n) - 136.
template <>
struct KvPairs<Int4> {
  static constexpr int kPairs = 4;
  static __device__ __forceinline__ void widen(unsigned (&out)[kPairs], unsigned word) {
    constexpr int kShift[kPairs] = {0, 8, 4, 12};
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      out[i] = multiply_add_pair(and_or(word >> kShift[i], 0x000f000fu, 0x43004300u), kOnePair, 0xc308c308u);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
