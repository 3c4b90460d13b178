// Numbers of 8 bits in registers: two floats are rounded to two codes of fp8 by one instruction (compute
// capability 8.9), and back. Earlier devices and the emulator use the rules of backend/kv_format.hpp and
// backend/float8_e5m2.hpp, which give the same bits.
//
//   unsigned pair = encode_pair<Float8>(low, high);     low in bits 0 to 7, high in bits 8 to 15
//   decode_pair<Float8>(low, high, pair);
// Source: NVIDIA, "PTX ISA", cvt.
#pragma once

#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/backend/float8_e5m2.hpp>
#include <tinytorch/backend/kv_format.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The code of a NaN has no sign. F is Float8 or Float8E5M2.
template <class F>
__device__ __forceinline__ unsigned encode_pair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t pair;
  if constexpr (std::is_same_v<F, Float8>) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  const auto code = [](float x) { return x == x ? static_cast<unsigned>(F(x).bits) : 0x7fu; };
  return code(low) | code(high) << 8;
#endif
}
template <class F>
__device__ __forceinline__ void decode_pair(float& low, float& high, unsigned pair) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  unsigned halves;
  if constexpr (std::is_same_v<F, Float8>) {
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
  } else {
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
  }
  Half two[2];
  memcpy(two, &halves, sizeof(two));
  low = to<float>(two[0]), high = to<float>(two[1]);
#else
  F codes[2];
  codes[0].bits = static_cast<uint8_t>(pair), codes[1].bits = static_cast<uint8_t>(pair >> 8);
  low = static_cast<float>(codes[0]), high = static_cast<float>(codes[1]);
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
