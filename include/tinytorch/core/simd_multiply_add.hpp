// a b + c of vectors, rounded once where the processor can.
//
// The vector form of math::multiply_add (core/scalar_math.hpp), for sums of products whose bits must not
// depend on the code around them. Where a loop says `sum += a * b`, the compiler chooses between one rounding
// and two, and it may choose differently in two copies of the loop: g++ tuned for Zen or Sapphire Rapids
// avoids fused multiply-adds in a loop that carries a single sum, and uses them in one that carries several.
#pragma once

#include <tinytorch/core/scalar_math.hpp>
#include <tinytorch/core/simd.hpp>
#include <tinytorch/core/simd_intrinsics.hpp>

namespace tinytorch::inline TT_BUILD {

namespace detail {
// v as a vector of another type; nvcc refuses a reinterpret_cast whose type depends on T.
template <class To, class From>
[[gnu::always_inline]] inline To as_vector(const From& v) {
  To out;
  std::memcpy(&out, &v, sizeof out);
  return out;
}
}  // namespace detail

template <class T>
[[gnu::always_inline]] inline Simd<T> simd_multiply_add(Simd<T> a, Simd<T> b, Simd<T> c) {
  constexpr bool kFloat = std::is_same_v<T, float>, kDouble = std::is_same_v<T, double>;
#if defined(__AVX512F__) && TT_FMA
  if constexpr (kFloat)
    return detail::as_vector<Simd<T>>(_mm512_fmadd_ps(
        detail::as_vector<__m512>(a), detail::as_vector<__m512>(b), detail::as_vector<__m512>(c)));
  if constexpr (kDouble)
    return detail::as_vector<Simd<T>>(_mm512_fmadd_pd(
        detail::as_vector<__m512d>(a), detail::as_vector<__m512d>(b), detail::as_vector<__m512d>(c)));
#elif defined(__AVX__) && TT_FMA
  if constexpr (kFloat)
    return detail::as_vector<Simd<T>>(_mm256_fmadd_ps(
        detail::as_vector<__m256>(a), detail::as_vector<__m256>(b), detail::as_vector<__m256>(c)));
  if constexpr (kDouble)
    return detail::as_vector<Simd<T>>(_mm256_fmadd_pd(
        detail::as_vector<__m256d>(a), detail::as_vector<__m256d>(b), detail::as_vector<__m256d>(c)));
#elif defined(__aarch64__)
  if constexpr (kFloat)
    return detail::as_vector<Simd<T>>(vfmaq_f32(detail::as_vector<float32x4_t>(c),
                                                detail::as_vector<float32x4_t>(a),
                                                detail::as_vector<float32x4_t>(b)));
  if constexpr (kDouble)
    return detail::as_vector<Simd<T>>(vfmaq_f64(detail::as_vector<float64x2_t>(c),
                                                detail::as_vector<float64x2_t>(a),
                                                detail::as_vector<float64x2_t>(b)));
#endif
  (void)kFloat, (void)kDouble;
  return a * b + c;  // two instructions, or integers
}

// math::multiply_add or simd_multiply_add, for V = T or V = Simd<T>: one call serves functions that are
// written once for vectors and for the last numbers.
template <class T, class V>
[[gnu::always_inline]] inline V multiply_add_lanes(V a, V b, V c) {
  if constexpr (sizeof(V) == sizeof(T))
    return math::multiply_add(a, b, c);
  else
    return simd_multiply_add<T>(a, b, c);
}

}  // namespace tinytorch::inline TT_BUILD
