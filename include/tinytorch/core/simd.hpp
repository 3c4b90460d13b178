// Simd<T>: one vector register of T, as wide as the target has them (AVX-512 64 bytes, AVX 32, else 16).
//
// GCC's and clang's vector extensions: + - * / compare and ?: work lane by lane. Used where a plain loop
// would not vectorize, which is wherever the order of additions matters: reductions and matrix products.
#pragma once

#include <cstdint>
#include <cstring>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD {

#if defined(__AVX512F__)
inline constexpr int kSimdBytes = 64;
#elif defined(__AVX__)
inline constexpr int kSimdBytes = 32;
#else
inline constexpr int kSimdBytes = 16;
#endif

template <class T>
struct SimdOf {
  typedef T type __attribute__((vector_size(kSimdBytes), may_alias));
};
template <class T>
using Simd = typename SimdOf<T>::type;
template <class T>
inline constexpr int64_t kLanes = kSimdBytes / static_cast<int64_t>(sizeof(T));

template <class T>
inline Simd<T> simd_load(const T* p) {
  Simd<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
inline void simd_store(T* p, Simd<T> v) {
  std::memcpy(p, &v, sizeof v);
}
template <class T>
inline Simd<T> simd_broadcast(T x) {
  return x - Simd<T>{};  // x - 0 in every lane (x + 0 would lose the sign of -0)
}

}  // namespace tinytorch::inline TT_BUILD
