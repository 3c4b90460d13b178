// Block formats in device code: how a lane decodes a number, multiplies a group of 32 numbers with
// activations of 8 bits, and prepares codes for tensor cores. Here are the formats whose blocks are one
// group; those of larger blocks are in super_blocks.cuh, those of 4-bit floats in fp4_blocks.cuh. The bytes
// are those of backend/cpu/blocks/simple_blocks.hpp. Blocks are aligned to 2 bytes.
#pragma once

#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/core/dtype.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// c + a[0] b[0] + ... + a[3] b[3] for the signed bytes of a and b.
__device__ __forceinline__ int dot_bytes(int a, int b, int c) {
#ifdef __CUDA_ARCH__
  return __dp4a(a, b, c);
#else
  for (int i = 0; i < 32; i += 8) c += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
  return c;
#endif
}

__device__ __forceinline__ float half_at(const uint8_t* p) {
  Half h;
  h.bits = *reinterpret_cast<const uint16_t*>(p);
  return to<float>(h);
}
// Four bytes at p, which is aligned to 2 bytes.
__device__ __forceinline__ int word_at(const uint8_t* p) {
  const auto* const halves = reinterpret_cast<const uint16_t*>(p);
  return static_cast<int>(halves[0] | static_cast<uint32_t>(halves[1]) << 16);
}
// kWords words from p on, which is aligned to kAlign bytes, by loads of aligned words. The bytes between p
// and the aligned address before it are read, too: the memory that holds p begins at an aligned address. No
// byte after the last word is read.
template <int kWords, int kAlign = 2>
__device__ __forceinline__ void load_words(const uint8_t* p, unsigned (&out)[kWords]) {
  const unsigned skipped = static_cast<unsigned>(reinterpret_cast<uintptr_t>(p) % 4);
  const auto* const aligned = reinterpret_cast<const uint32_t*>(p - skipped);
  const auto shifted = [skipped](unsigned low, unsigned high) {
#ifdef __CUDA_ARCH__
    return __funnelshift_r(low, high, 8 * skipped);
#else
    return static_cast<unsigned>((uint64_t{high} << 32 | low) >> 8 * skipped);
#endif
  };
  unsigned low = aligned[0], high = 0;
#pragma unroll
  for (int i = 0; i + 1 < kWords; ++i) {
    high = aligned[i + 1];
    out[i] = shifted(low, high);
    low = high;
  }
  const uint8_t* const end = p + 4 * kWords;
  high = 0;
  if constexpr (kAlign == 2) {
    if (skipped != 0) high = *reinterpret_cast<const uint16_t*>(end - 2);
  } else {
#pragma unroll
    for (unsigned b = 0; b < 3; ++b)
      if (b < skipped) high |= static_cast<unsigned>((end - skipped)[b]) << 8 * b;
  }
  out[kWords - 1] = shifted(low, high);
}
// Two bytes at p + i and two at p + j, which are aligned to 2 bytes.
__device__ __forceinline__ unsigned two_halves(const uint8_t* p, int i, int j) {
  return *reinterpret_cast<const uint16_t*>(p + i) |
         static_cast<unsigned>(*reinterpret_cast<const uint16_t*>(p + j)) << 16;
}

// 32 activations of 8 bits with one scale.
struct Int8Group {
  int code[8];  // four numbers each
  float scale;
};

// a b + c of two numbers of the 16-bit type T, which are packed into a word.
template <class T>
__device__ __forceinline__ unsigned multiply_add_two(unsigned a, unsigned b, unsigned c) {
  unsigned out = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  }
#else
  for (int i = 0; i < 2; ++i) {
    const auto part = [i](unsigned x) {
      T v;
      v.bits = static_cast<uint16_t>(x >> 16 * i);
      return to<float>(v);
    };
    out |= static_cast<unsigned>(to<T>(fmaf(part(a), part(b), part(c))).bits) << 16 * i;
  }
#endif
  return out;
}
// Bytes 2 i and 2 i + 1 of a word, as the low halves of two 16-bit numbers.
__device__ __forceinline__ unsigned two_bytes(unsigned word, int i) {
#ifdef __CUDA_ARCH__
  return __byte_perm(word, 0, i == 0 ? 0x4140 : 0x4342);
#else
  return (word >> 16 * i & 0xff) | (word >> (16 * i + 8) & 0xff) << 16;
#endif
}
// The constants of T in both halves of a word. T has 2^7 + n (bf16) or 2^10 + n (f16) as the bits of 2^7 or
// 2^10, plus n, if n is below 2^7 or 2^10.
template <class T>
struct PairOf {
  static constexpr bool kBf16 = std::is_same_v<T, BFloat16>;
  static constexpr unsigned kOne = kBf16 ? 0x3f803f80u : 0x3c003c00u;
  static constexpr unsigned kMinusOne = kOne | 0x80008000u;
  static constexpr unsigned kBase = kBf16 ? 0x43004300u : 0x64006400u;    // 128, or 1024
  static constexpr unsigned kMinusBase = kBase | 0x80008000u;             // -128, or -1024
  static constexpr unsigned kMinusBaseAnd8 = kMinusBase + 0x00080008u;    // -136, or -1032
  static constexpr unsigned kMinusBaseAnd128 = kMinusBase + 0x00800080u;  // f16: -1152
};
// Bytes 2 i and 2 i + 1 of a word, which are below 128, added to the base of T.
template <class T>
__device__ __forceinline__ unsigned two_bytes_on_base(unsigned word, int i) {
#ifdef __CUDA_ARCH__
  return __byte_perm(word, PairOf<T>::kBase, i == 0 ? 0x5150 : 0x5352);  // the base's low bytes are 0
#else
  return two_bytes(word, i) | PairOf<T>::kBase;
#endif
}
// Two codes of 4 bits on the base of T, minus it and `zero`, which is 0 or 8, as two numbers of type T.
// Exact.
template <class T, int zero>
__device__ __forceinline__ unsigned pair_less_base(unsigned codes) {
  return multiply_add_two<T>(codes, PairOf<T>::kOne,
                             zero == 0 ? PairOf<T>::kMinusBase : PairOf<T>::kMinusBaseAnd8);
}
template <class T, int zero>
__device__ __forceinline__ unsigned pair_of_nibbles(unsigned codes) {
  return pair_less_base<T, zero>(codes | PairOf<T>::kBase);
}
// Two signed bytes as two numbers of type T. Exact: with bf16, the low 7 bits minus the sign bit.
template <class T>
__device__ __forceinline__ unsigned pair_of_bytes(unsigned codes) {
  if constexpr (PairOf<T>::kBf16) {
    return multiply_add_two<T>((codes & 0x00800080u) | PairOf<T>::kBase, PairOf<T>::kMinusOne,
                               (codes & 0x007f007fu) | PairOf<T>::kBase);
  } else {
    return multiply_add_two<T>((codes ^ 0x00800080u) | PairOf<T>::kBase, PairOf<T>::kOne,
                               PairOf<T>::kMinusBaseAnd128);
  }
}

// F::group(row, g) says where the 32 numbers of group g of a row are: a pointer if a block is one group.
// F::value(group, i) is number i of a group. F::dot(group, x) is its product with a group of activations.
//
// A format for tensor cores (DecodesPairs) has one scale for a block of one group, and F::pairs<T>(block, i,
// j, out) decodes the codes of numbers (i, i + 1), (j, j + 1), (i + 16, i + 17) and (j + 16, j + 17); i and j
// are even and below 16. A number is scale(block) times its code, plus offset(block) if the format has one.
template <class F>
concept DecodesPairs = requires(const uint8_t* block, unsigned (&out)[4]) {
  F::template pairs<BFloat16>(block, 0, 2, out);
};

// A block is one group.
template <int kBlockBytes>
struct GroupBlock {
  static constexpr int kBytes = kBlockBytes;
  using Group = const uint8_t*;
  static __device__ __forceinline__ Group group(const uint8_t* row, int64_t g) { return row + g * kBytes; }
};

// Codes of 8 bits from byte kCodes on: Q8_0, and Q8_1, whose sum in between serves other programs.
template <int kCodes>
struct DeviceInt8Codes : GroupBlock<kCodes + 32> {
  static constexpr bool kOffset = false;
  template <class T>
  static __device__ __forceinline__ void pairs(const uint8_t* block, int i, int j, unsigned (&out)[4]) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const unsigned word = two_halves(block + kCodes + 16 * k, i, j);
      out[2 * k] = pair_of_bytes<T>(two_bytes(word, 0));
      out[2 * k + 1] = pair_of_bytes<T>(two_bytes(word, 1));
    }
  }
  static __device__ __forceinline__ float scale(const uint8_t* block) { return half_at(block); }
  static __device__ __forceinline__ float value(const uint8_t* block, int i) {
    return half_at(block) * static_cast<float>(static_cast<int8_t>(block[kCodes + i]));
  }
  static __device__ __forceinline__ float dot(const uint8_t* block, const Int8Group& x) {
    int sum = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) sum = dot_bytes(word_at(block + kCodes + 4 * j), x.code[j], sum);
    return half_at(block) * x.scale * static_cast<float>(sum);
  }
};
using DeviceQ8_0 = DeviceInt8Codes<2>;
using DeviceQ8_1 = DeviceInt8Codes<4>;

// The sums of codes[i] x[i] and of x[i], for 16 bytes of two codes.
struct NibbleSums {
  int products = 0, activations = 0;
  __device__ __forceinline__ NibbleSums(const uint8_t* p, const Int8Group& x) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int word = word_at(p + 4 * j);
      products = dot_bytes(word & 0x0f0f0f0f, x.code[j], products);
      products = dot_bytes(word >> 4 & 0x0f0f0f0f, x.code[j + 4], products);
      activations = dot_bytes(0x01010101, x.code[j], dot_bytes(0x01010101, x.code[j + 4], activations));
    }
  }
};
__device__ __forceinline__ int nibble_at(const uint8_t* p, int i) {
  return i < 16 ? p[i] & 15 : p[i - 16] >> 4;
}
// The nibbles are masked before the bytes are spread: on an H100 this order takes 4 % less time than the
// other one, although it is one instruction longer.
template <class T, int zero>
__device__ __forceinline__ void pairs_of_nibbles(unsigned word, unsigned (&out)[4]) {
  const unsigned low = word & 0x0f0f0f0fu, high = word >> 4 & 0x0f0f0f0fu;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    out[i] = pair_less_base<T, zero>(two_bytes_on_base<T>(low, i));
    out[2 + i] = pair_less_base<T, zero>(two_bytes_on_base<T>(high, i));
  }
}
struct DeviceQ4_0 : GroupBlock<18> {
  static constexpr bool kOffset = false;
  template <class T>
  static __device__ __forceinline__ void pairs(const uint8_t* block, int i, int j, unsigned (&out)[4]) {
    pairs_of_nibbles<T, 8>(two_halves(block + 2, i, j), out);
  }
  static __device__ __forceinline__ float scale(const uint8_t* block) { return half_at(block); }
  static __device__ __forceinline__ float value(const uint8_t* block, int i) {
    return half_at(block) * static_cast<float>(nibble_at(block + 2, i) - 8);
  }
  static __device__ __forceinline__ float dot(const uint8_t* block, const Int8Group& x) {
    const NibbleSums sums(block + 2, x);
    return half_at(block) * x.scale * static_cast<float>(sums.products - 8 * sums.activations);
  }
};
struct DeviceQ4_1 : GroupBlock<20> {
  static constexpr bool kOffset = true;
  template <class T>
  static __device__ __forceinline__ void pairs(const uint8_t* block, int i, int j, unsigned (&out)[4]) {
    pairs_of_nibbles<T, 0>(two_halves(block + 4, i, j), out);
  }
  static __device__ __forceinline__ float scale(const uint8_t* block) { return half_at(block); }
  static __device__ __forceinline__ float offset(const uint8_t* block) { return half_at(block + 2); }
  static __device__ __forceinline__ float value(const uint8_t* block, int i) {
    return half_at(block) * static_cast<float>(nibble_at(block + 4, i)) + half_at(block + 2);
  }
  static __device__ __forceinline__ float dot(const uint8_t* block, const Int8Group& x) {
    const NibbleSums sums(block + 4, x);
    return x.scale * (half_at(block) * static_cast<float>(sums.products) +
                      half_at(block + 2) * static_cast<float>(sums.activations));
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
