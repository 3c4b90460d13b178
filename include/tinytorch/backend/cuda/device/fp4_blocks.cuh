// Blocks of 4-bit floats (E2M1) in device code: MXFP4 and NVFP4. Twice an E2M1 number is an integer of at
// most 12, so products with activations of 8 bits are those of bytes. The bytes are those of
// backend/cpu/blocks/fp4_blocks.hpp. The interface is that of blocks.cuh; blocks of MXFP4 have any alignment.
#pragma once

#include <bit>
#include <tinytorch/backend/cuda/device/super_blocks.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Byte i of the result is byte number (selector >> 4 i & 7) of the eight bytes of `low` and `high`. The other
// bit of each half byte of the selector is 0.
__device__ __forceinline__ unsigned choose_bytes(unsigned low, unsigned high, unsigned selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, selector);
#else
  const uint64_t bytes = uint64_t{high} << 32 | low;
  unsigned out = 0;
  for (unsigned i = 0; i < 4; ++i)
    out |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return out;
#endif
}

// Twice the number of an E2M1 code: a sign, two bits of an exponent, a bit of the fraction.
__device__ __forceinline__ int twice_e2m1(int code) {
  const int exponent = code >> 1 & 3, fraction = code & 1;
  const int magnitude = exponent == 0 ? fraction : (2 + fraction) << (exponent - 1);
  return (code & 8) != 0 ? -magnitude : magnitude;
}
// Twice the numbers of the codes in the low halves of four bytes, and in their high halves, as signed bytes.
struct TwiceE2m1 {
  int low, high;
  __device__ __forceinline__ explicit TwiceE2m1(unsigned codes) {
    unsigned mixed[2];  // low and high halves in turn
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const unsigned four = codes >> 16 * k & 0xffffu, magnitude = four & 0x7777u;
      const unsigned positive = choose_bytes(0x03020100u, 0x0c080604u, magnitude);
      const unsigned negative = choose_bytes(0xfdfeff00u, 0xf4f8fafcu, magnitude);
      mixed[k] = choose_bytes(positive, negative, 0x3210u | (four & 0x8888u) >> 1);
    }
    low = static_cast<int>(choose_bytes(mixed[0], mixed[1], 0x6420u));
    high = static_cast<int>(choose_bytes(mixed[0], mixed[1], 0x7531u));
  }
};

struct DeviceMXFP4 : GroupBlock<17> {
  static __device__ __forceinline__ float value(Group block, int i) {
    return half_scale(block[0]) * static_cast<float>(twice_e2m1(nibble_at(block + 1, i)));
  }
  static __device__ __forceinline__ float dot(Group block, const Int8Group& x) {
    unsigned words[4];
    load_words<4, 1>(block + 1, words);
    int sum = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const TwiceE2m1 numbers(words[j]);
      sum = dot_bytes(numbers.low, x.code[j], dot_bytes(numbers.high, x.code[j + 4], sum));
    }
    return half_scale(block[0]) * (x.scale * static_cast<float>(sum));
  }

 private:
  // 2^(e - 128), half of the scale.
  static __device__ __forceinline__ float half_scale(unsigned e) {
    return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  }
};

// A block is two pairs of groups of 16 numbers. Byte i of the 8 of such a group holds codes i and i + 8.
struct DeviceNVFP4 : SuperBlock<36, 2> {
  static __device__ __forceinline__ float value(Group g, int i) {
    const int half = i / 16, k = i % 16, byte = codes(g)[8 * half + k % 8];
    return half_scale(g, half) * static_cast<float>(twice_e2m1(byte >> k / 8 * 4 & 15));
  }
  static __device__ __forceinline__ float dot(Group g, const Int8Group& x) {
    unsigned words[4];
    load_words(codes(g), words);
    float sum = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int products = 0;
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const TwiceE2m1 numbers(words[2 * half + k]);
        products = dot_bytes(numbers.low, x.code[4 * half + k], products);
        products = dot_bytes(numbers.high, x.code[4 * half + k + 2], products);
      }
      sum = fmaf(half_scale(g, half), static_cast<float>(products), sum);
    }
    return x.scale * sum;
  }

 private:
  static __device__ __forceinline__ const uint8_t* codes(Group g) { return g.block + 4 + 16 * g.index; }
  // E4M3 has the bits of a float, shifted, and an exponent that is less by 120. The sign is ignored, and the
  // bits of NaN are 0.
  static __device__ __forceinline__ float half_scale(Group g, int half) {
    const unsigned bits = g.block[2 * g.index + half] & 0x7fu;
    return std::bit_cast<float>(bits == 0x7f ? 0u : bits << 20) * 0x1p119f;
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
