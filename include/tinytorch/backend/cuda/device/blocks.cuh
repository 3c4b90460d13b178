// Block formats in device code: how a lane decodes a number, and multiplies a block with activations of 8
// bits. The bytes are those of backend/cpu/blocks/simple_blocks.hpp. Blocks are aligned to 2 bytes.
#pragma once

#include <tinytorch/backend/cuda/device/vector.cuh>

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

// 32 activations of 8 bits with one scale.
struct Int8Group {
  int code[8];  // four numbers each
  float scale;
};

// F::value(block, i) is number i, for any format. F::dot(block, x) is the product of a block with a group.
struct DeviceQ8_0 {
  static constexpr int kBytes = 34;
  static __device__ __forceinline__ float value(const uint8_t* block, int i) {
    return half_at(block) * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
  static __device__ __forceinline__ float dot(const uint8_t* block, const Int8Group& x) {
    int sum = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) sum = dot_bytes(word_at(block + 2 + 4 * j), x.code[j], sum);
    return half_at(block) * x.scale * static_cast<float>(sum);
  }
};

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
struct DeviceQ4_0 {
  static constexpr int kBytes = 18;
  static __device__ __forceinline__ float value(const uint8_t* block, int i) {
    return half_at(block) * static_cast<float>(nibble_at(block + 2, i) - 8);
  }
  static __device__ __forceinline__ float dot(const uint8_t* block, const Int8Group& x) {
    const NibbleSums sums(block + 2, x);
    return half_at(block) * x.scale * static_cast<float>(sums.products - 8 * sums.activations);
  }
};
struct DeviceQ4_1 {
  static constexpr int kBytes = 20;
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
