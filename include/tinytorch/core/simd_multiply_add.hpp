// a b + c of vectors, rounded once where the processor can.
//
// The vector form of math::multiply_add (core/scalar_math.hpp), for sums of products whose bits must not
// depend on the code around them. Where a loop says `sum += a * b`, the compiler chooses between one rounding
// and two, and it may choose differently in two copies of the loop: g++ tuned for Zen or Sapphire Rapids
// avoids fused multiply-adds in a loop that carries a single sum, and uses them in one that carries several.
#pragma once

#include <tinytorch/core/scalar_math.hpp>
#include <tinytorch/core/simd.hpp>
#if defined(__AVX__) && TT_FMA
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace tinytorch::inline TT_BUILD {

template <class T>
[[gnu::always_inline]] inline Simd<T> simd_multiply_add(Simd<T> a, Simd<T> b, Simd<T> c) {
  constexpr bool kFloat = std::is_same_v<T, float>, kDouble = std::is_same_v<T, double>;
#if defined(__AVX512F__) && TT_FMA
  if constexpr (kFloat)
    return reinterpret_cast<Simd<T>>(_mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b),
                                                     reinterpret_cast<__m512>(c)));
  if constexpr (kDouble)
    return reinterpret_cast<Simd<T>>(_mm512_fmadd_pd(
        reinterpret_cast<__m512d>(a), reinterpret_cast<__m512d>(b), reinterpret_cast<__m512d>(c)));
#elif defined(__AVX__) && TT_FMA
  if constexpr (kFloat)
    return reinterpret_cast<Simd<T>>(_mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b),
                                                     reinterpret_cast<__m256>(c)));
  if constexpr (kDouble)
    return reinterpret_cast<Simd<T>>(_mm256_fmadd_pd(
        reinterpret_cast<__m256d>(a), reinterpret_cast<__m256d>(b), reinterpret_cast<__m256d>(c)));
#elif defined(__aarch64__)
  if constexpr (kFloat)
    return reinterpret_cast<Simd<T>>(vfmaq_f32(reinterpret_cast<float32x4_t>(c),
                                               reinterpret_cast<float32x4_t>(a),
                                               reinterpret_cast<float32x4_t>(b)));
  if constexpr (kDouble)
    return reinterpret_cast<Simd<T>>(vfmaq_f64(reinterpret_cast<float64x2_t>(c),
                                               reinterpret_cast<float64x2_t>(a),
                                               reinterpret_cast<float64x2_t>(b)));
#endif
  (void)kFloat, (void)kDouble;
  return a * b + c;  // two instructions, or integers
}

// The same for V = T or V = Simd<T>, for functions that are written once for vectors and for the last
// numbers.
template <class T, class V>
[[gnu::always_inline]] inline V multiply_add_lanes(V a, V b, V c) {
  if constexpr (sizeof(V) == sizeof(T))
    return math::multiply_add(a, b, c);
  else
    return simd_multiply_add<T>(a, b, c);
}

}  // namespace tinytorch::inline TT_BUILD
