// Numbers of 8 and 4 bits as pairs of 16-bit numbers, the operands of tensor cores, which represent all of
// them.
//
//   KvPairs<int8_t>::widen(pairs, word);    bf16: bytes 0 and 2 of the word, then bytes 1 and 3
//   KvPairs<Int4>::widen(pairs, word);      bf16: their low halves likewise, then their high halves
//   KvHalves<K>::widen(pairs, word);        f16, with an offset and a factor, in fewer instructions
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
inline constexpr unsigned kMinusPair = 0x80008000u;  // the signs of a pair
// a b of two bf16.
__device__ __forceinline__ unsigned multiply_pair(unsigned a, unsigned b) {
  return multiply_add_pair(a, b, kMinusPair);  // the sum with -0 keeps the sign of a zero
}
// The low or the high halves of two words as a pair.
__device__ __forceinline__ unsigned low_halves(unsigned a, unsigned b) {
#ifdef __CUDA_ARCH__
  return __byte_perm(a, b, 0x5410);
#else
  return (a & 0xffffu) | b << 16;
#endif
}
__device__ __forceinline__ unsigned high_halves(unsigned a, unsigned b) {
#ifdef __CUDA_ARCH__
  return __byte_perm(a, b, 0x7632);
#else
  return a >> 16 | (b & 0xffff0000u);
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

// A pair may be the numbers plus offsets, which a product of its own takes back: that is one instruction for
// four pairs, where an addition is one for each. minus_offset(word, i): of pair i; kMinusOffset: of all
// pairs.
template <class K>
struct KvPairs;

// A number b is (128 + its low 7 bits) - (128 + its sign bit), where bf16 has 128 + n for n < 128 as 0x4300 +
// n, and 256 as 0x4380.
template <>
struct KvPairs<int8_t> {
  static constexpr int kPairs = 2;
  static constexpr bool kHasOffsets = true;
  static __device__ __forceinline__ void widen(unsigned (&out)[kPairs], unsigned word) {
    out[0] = and_or(word, 0x007f007fu, 0x43004300u), out[1] = and_or(word >> 8, 0x007f007fu, 0x43004300u);
  }
  static __device__ __forceinline__ unsigned minus_offset(unsigned word, int i) {
    return and_or(word >> 8 * i, 0x00800080u, 0xc300c300u);
  }
};

// The exponent of bf16 has a bias that is larger by 120. The product is exact for subnormal numbers too.
template <>
struct KvPairs<Float8> {
  static constexpr int kPairs = 2;
  static constexpr bool kHasOffsets = false;
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
    for (int i = 0; i < kPairs; ++i) out[i] = and_or(word >> kShift[i], 0x000f000fu, 0x43004300u);
  }
  static constexpr unsigned kMinusOffset = 0xc308c308u;
};

// Pairs of f16: (number + offset(i / 2)) * factor(i / 2) for pair i. A product takes the offset back by the
// sum of its other operand. The numbers are the low bits of halves from 1024 to 2047, whose unit is 1.
template <class K>
struct KvHalves;

template <>
struct KvHalves<int8_t> {
  static constexpr int kPairs = 2;
  static __device__ __forceinline__ float offset(int) { return 1152; }
  static __device__ __forceinline__ float factor(int) { return 1; }
  static __device__ __forceinline__ void widen(unsigned (&out)[kPairs], unsigned word) {
    const unsigned biased = word ^ 0x80808080u;
#ifdef __CUDA_ARCH__
    out[0] = __byte_perm(biased, 0x64646464u, 0x4240), out[1] = __byte_perm(biased, 0x64646464u, 0x4341);
#else
    out[0] = (biased & 0x00ff00ffu) | 0x64006400u, out[1] = (biased >> 8 & 0x00ff00ffu) | 0x64006400u;
#endif
  }
};

template <>
struct KvHalves<Int4> {
  static constexpr int kPairs = 4;
  static __device__ __forceinline__ float offset(int step) { return step == 0 ? 1032 : 72; }
  static __device__ __forceinline__ float factor(int step) { return step == 0 ? 1 : 16; }
  static __device__ __forceinline__ void widen(unsigned (&out)[kPairs], unsigned word) {
    const unsigned odd = word >> 8;
    out[0] = and_or(word, 0x000f000fu, 0x64006400u), out[1] = and_or(odd, 0x000f000fu, 0x64006400u);
    out[2] = and_or(word, 0x00f000f0u, 0x64006400u), out[3] = and_or(odd, 0x00f000f0u, 0x64006400u);
  }
};

// The exponent of f16 has a bias that is larger by 8, and f16 has the subnormal numbers as well.
template <>
struct KvHalves<Float8> {
  static constexpr int kPairs = 2;
  static __device__ __forceinline__ float offset(int) { return 0; }
  static __device__ __forceinline__ float factor(int) { return 1.0f / 256; }
  static __device__ __forceinline__ void widen(unsigned (&out)[kPairs], unsigned word) {
    out[0] = of(word << 8, word << 7), out[1] = of(word, word >> 1);
  }

 private:
  static __device__ __forceinline__ unsigned of(unsigned sign, unsigned magnitude) {
    return and_or(magnitude, 0x3f803f80u, sign & 0x80008000u);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
