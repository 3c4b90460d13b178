// Blocks of 256 numbers in device code: Q4_K and Q6_K. A lane works on one of the 8 groups of 32 numbers, so
// eight lanes share a block, and read its bytes in the same request. The bytes are those of
// backend/cpu/blocks/k_blocks.hpp. Blocks are aligned to 2 bytes; the interface is that of blocks.cuh.
#pragma once

#include <tinytorch/backend/cuda/device/blocks.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A block is kGroups groups.
template <int kBlockBytes, int kGroups>
struct SuperBlock {
  static constexpr int kBytes = kBlockBytes;
  struct Group {
    const uint8_t* block;
    int index;  // of the group in its block
  };
  static __device__ __forceinline__ Group group(const uint8_t* row, int64_t g) {
    return {row + g / kGroups * kBytes, static_cast<int>(g % kGroups)};
  }
};

struct DeviceQ4_K : SuperBlock<144, 8> {
  static __device__ __forceinline__ float value(Group g, int i) {
    const int code = codes(g)[i] >> g.index % 2 * 4 & 15;
    return fmaf(scale(g), static_cast<float>(code), -offset(g));
  }
  static __device__ __forceinline__ float dot(Group g, const Int8Group& x) {
    unsigned words[8];
    load_codes(codes(g), words);
    const int shift = g.index % 2 * 4;
    int products = 0, activations = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      products = dot_bytes(static_cast<int>(words[j] >> shift & 0x0f0f0f0fu), x.code[j], products);
      activations = dot_bytes(0x01010101, x.code[j], activations);
    }
    return x.scale * (scale(g) * static_cast<float>(products) - offset(g) * static_cast<float>(activations));
  }

 private:
  // The 32 bytes of groups 2 j and 2 j + 1: the codes of the first are in the low halves.
  static __device__ __forceinline__ const uint8_t* codes(Group g) { return g.block + 16 + g.index / 2 * 32; }
  static __device__ __forceinline__ void load_codes(const uint8_t* p, unsigned (&words)[8]) {
    if (reinterpret_cast<uintptr_t>(p) % 16 != 0) return load_words(p, words);
    const auto* const pieces = reinterpret_cast<const uint4*>(p);
    const uint4 low = pieces[0], high = pieces[1];
    words[0] = low.x, words[1] = low.y, words[2] = low.z, words[3] = low.w;
    words[4] = high.x, words[5] = high.y, words[6] = high.z, words[7] = high.w;
  }
  // Groups 0-3 have their 6 bits in one byte. Groups 4-7 have their low 4 bits in bytes 8-11 of the 12, the
  // scale's below the offset's, and their high 2 bits above the 6 of group g - 4.
  static __device__ __forceinline__ float scale(Group g) {
    const uint8_t* const s = g.block + 4;
    const int i = g.index, bits = i < 4 ? s[i] & 63 : (s[i + 4] & 15) | s[i - 4] >> 6 << 4;
    return half_at(g.block) * static_cast<float>(bits);
  }
  static __device__ __forceinline__ float offset(Group g) {
    const uint8_t* const m = g.block + 8;
    const int i = g.index, bits = i < 4 ? m[i] & 63 : m[i] >> 4 | m[i - 4] >> 6 << 4;
    return half_at(g.block + 2) * static_cast<float>(bits);
  }
};

// A block holds its numbers in groups of 128: byte i of 64 has the low 4 bits of codes i and i + 64, and byte
// i of 32 more has the high 2 bits of codes i, i + 32, i + 64 and i + 96.
struct DeviceQ6_K : SuperBlock<210, 8> {
  static __device__ __forceinline__ float value(Group g, int i) {
    const int code = (low_bits(g)[i] >> low_shift(g) & 15) | (high_bits(g)[i] >> high_shift(g) & 3) << 4;
    return scale(g, i / 16) * static_cast<float>(code - 32);
  }
  static __device__ __forceinline__ float dot(Group g, const Int8Group& x) {
    unsigned low[8], high[8];
    load_words(low_bits(g), low);
    load_words(high_bits(g), high);
    float sum = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int products = 0, activations = 0;
#pragma unroll
      for (int j = 4 * half; j < 4 * half + 4; ++j) {
        const unsigned codes =
            (low[j] >> low_shift(g) & 0x0f0f0f0fu) | (high[j] >> high_shift(g) & 0x03030303u) << 4;
        products = dot_bytes(static_cast<int>(codes), x.code[j], products);
        activations = dot_bytes(0x01010101, x.code[j], activations);
      }
      sum = fmaf(scale(g, half), static_cast<float>(products - 32 * activations), sum);
    }
    return x.scale * sum;
  }

 private:
  static __device__ __forceinline__ const uint8_t* low_bits(Group g) {
    return g.block + g.index / 4 * 64 + g.index % 2 * 32;
  }
  static __device__ __forceinline__ const uint8_t* high_bits(Group g) {
    return g.block + 128 + g.index / 4 * 32;
  }
  static __device__ __forceinline__ int low_shift(Group g) { return g.index % 4 / 2 * 4; }
  static __device__ __forceinline__ int high_shift(Group g) { return g.index % 4 * 2; }
  // The scale of 16 numbers.
  static __device__ __forceinline__ float scale(Group g, int half) {
    const auto s = static_cast<int8_t>(g.block[192 + 2 * g.index + half]);
    return half_at(g.block + 208) * static_cast<float>(s);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
