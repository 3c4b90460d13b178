// Elements in registers: conversions between storage type and compute type, and vectorized loads and stores
// of up to 16 bytes per thread, the most efficient access.
//
//   float v[8];  load(v, x + i);   ...   store(y + i, v);      x bf16: one 16-byte access; f32: two
#pragma once

#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <type_traits>

namespace tinytorch::inline TT_BUILD::backend::cuda {

template <class T>
inline constexpr bool kIs16Bit = std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>;

// The compute type of elements of a floating T: float for 16-bit types.
template <class T>
using Compute = std::conditional_t<kIs16Bit<T>, float, T>;
// The old name of Compute.
template <class T>
using Wide [[deprecated("since 0.1.0: use Compute; Wide ends with 0.2.0")]] = Compute<T>;

// Converts one element by the rules of backend::convert. 16-bit floats use PTX instructions: the headers of
// __half and __nv_bfloat16 take longer to compile than most kernels.
template <class To, class From>
__device__ __forceinline__ To to(From x) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<From, float> && std::is_same_v<To, Half>) {
    To y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
  } else if constexpr (std::is_same_v<From, Half> && std::is_same_v<To, float>) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
  }
#if __CUDA_ARCH__ >= 800
  else if constexpr (std::is_same_v<From, float> && std::is_same_v<To, BFloat16>) {
    To y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
  }
#endif
  else
#endif
  {
    return convert<To>(x);
  }
}

// 2^x by one instruction: the error is at most 2 ulp, and results below 2^-126 are 0.
__device__ __forceinline__ float exp2_approx(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// 1/x by one instruction, for normal x.
__device__ __forceinline__ float reciprocal_approx(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0f / x;
#endif
}

// The unsigned type of one access of kBytes.
template <int kBytes>
struct WordOf;
template <>
struct WordOf<1> {
  using Type = uint8_t;
};
template <>
struct WordOf<2> {
  using Type = uint16_t;
};
template <>
struct WordOf<4> {
  using Type = unsigned;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<16> {
  using Type = uint4;
};

// Bytes of one access if a thread moves kCount elements of T.
template <class T, int kCount>
inline constexpr int kAccessBytes = sizeof(T) * kCount < 16 ? static_cast<int>(sizeof(T) * kCount) : 16;

// Loads kCount elements at p, which is aligned to kAccessBytes, and converts them to C.
template <class C, int kCount, class T>
__device__ __forceinline__ void load(C (&out)[kCount], const T* p) {
  constexpr int kBytes = kAccessBytes<T, kCount>, kEach = kBytes / static_cast<int>(sizeof(T));
  using Word = typename WordOf<kBytes>::Type;
  static_assert(kCount % kEach == 0, "a power of two");
#pragma unroll
  for (int k = 0; k < kCount / kEach; ++k) {
    const Word word = reinterpret_cast<const Word*>(p)[k];
    T values[kEach];
    memcpy(values, &word, sizeof(word));
#pragma unroll
    for (int i = 0; i < kEach; ++i) out[k * kEach + i] = to<C>(values[i]);
  }
}
// Converts kCount elements; two 16-bit results take one instruction.
template <class T, int kCount, class C>
__device__ __forceinline__ void convert_elements(T (&out)[kCount], const C* in) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<C, float> && kIs16Bit<T> && kCount % 2 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      unsigned two;  // the second operand is the lower half
      if constexpr (std::is_same_v<T, BFloat16>) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(in[i + 1]), "f"(in[i]));
      } else {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(in[i + 1]), "f"(in[i]));
      }
      memcpy(&out[i], &two, sizeof(two));
    }
  } else
#endif
  {
#pragma unroll
    for (int i = 0; i < kCount; ++i) out[i] = to<T>(in[i]);
  }
}
// Converts kCount elements to T and stores them at p, which is aligned to kAccessBytes.
template <class C, int kCount, class T>
__device__ __forceinline__ void store(T* p, const C (&in)[kCount]) {
  constexpr int kBytes = kAccessBytes<T, kCount>, kEach = kBytes / static_cast<int>(sizeof(T));
  using Word = typename WordOf<kBytes>::Type;
#pragma unroll
  for (int k = 0; k < kCount / kEach; ++k) {
    T values[kEach];
    convert_elements(values, &in[k * kEach]);
    Word word;
    memcpy(&word, values, sizeof(word));
    reinterpret_cast<Word*>(p)[k] = word;
  }
}

// 16 or 4 bytes at p that no kernel writes and that are read once: they do not displace others from the L1
// cache.
__device__ __forceinline__ void load_once(unsigned (&out)[4], const uint8_t* p) {
#ifdef __CUDA_ARCH__
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "l"(p));
#else
  const uint4 four = *reinterpret_cast<const uint4*>(p);
  out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
#endif
}
__device__ __forceinline__ unsigned load_word_once(const uint8_t* p) {
#ifdef __CUDA_ARCH__
  unsigned word;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(word) : "l"(p));
  return word;
#else
  return *reinterpret_cast<const unsigned*>(p);
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
