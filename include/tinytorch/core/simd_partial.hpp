// Masked load and store of the first n lanes of a vector, for the remainder elements of a row.
//
// A load sets the other lanes to 0 and reads nothing beyond the n elements; a store writes nothing beyond
// them. AVX-512 and AVX do each in one instruction for types of 4 and 8 bytes; elsewhere n values are copied.
#pragma once

#include <tinytorch/core/simd.hpp>
#include <tinytorch/core/simd_intrinsics.hpp>

namespace tinytorch::inline TT_BUILD {

template <class T>
class FirstLanes {
 public:
  // 0 <= n <= kLanes<T>.
  explicit FirstLanes(int64_t n) : n_(n) {
#if defined(__AVX512F__)
    if constexpr (kWord || kLong) mask_ = static_cast<__mmask16>((1u << n) - 1u);
#elif defined(__AVX__)
    if constexpr (kWord || kLong) {
      alignas(32) static constexpr int32_t kOnes[] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
      mask_ = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kOnes + 8 - n * (kLong ? 2 : 1)));
    }
#endif
  }

  Simd<T> load(const T* p) const {
    Simd<T> v{};
#if defined(__AVX512F__)
    if constexpr (kWord) return reinterpret<Simd<T>>(_mm512_maskz_loadu_epi32(mask_, p));
    if constexpr (kLong)
      return reinterpret<Simd<T>>(_mm512_maskz_loadu_epi64(static_cast<__mmask8>(mask_), p));
#elif defined(__AVX__)
    if constexpr (kWord)
      return reinterpret<Simd<T>>(_mm256_maskload_ps(reinterpret_cast<const float*>(p), mask_));
    if constexpr (kLong)
      return reinterpret<Simd<T>>(_mm256_maskload_pd(reinterpret_cast<const double*>(p), mask_));
#endif
    std::memcpy(&v, p, static_cast<size_t>(n_) * sizeof(T));
    return v;
  }

  void store(T* p, Simd<T> v) const {
#if defined(__AVX512F__)
    if constexpr (kWord) return _mm512_mask_storeu_epi32(p, mask_, reinterpret<__m512i>(v));
    if constexpr (kLong)
      return _mm512_mask_storeu_epi64(p, static_cast<__mmask8>(mask_), reinterpret<__m512i>(v));
#elif defined(__AVX__)
    if constexpr (kWord)
      return _mm256_maskstore_ps(reinterpret_cast<float*>(p), mask_, reinterpret<__m256>(v));
    if constexpr (kLong)
      return _mm256_maskstore_pd(reinterpret_cast<double*>(p), mask_, reinterpret<__m256d>(v));
#endif
    std::memcpy(p, &v, static_cast<size_t>(n_) * sizeof(T));
  }

 private:
  static constexpr bool kWord = sizeof(T) == 4, kLong = sizeof(T) == 8;
  template <class To, class From>
  static To reinterpret(From v) {
    To out;
    std::memcpy(&out, &v, sizeof out);
    return out;
  }

  int64_t n_;
#if defined(__AVX512F__)
  __mmask16 mask_ = 0;
#elif defined(__AVX__)
  __m256i mask_{};
#endif
};

}  // namespace tinytorch::inline TT_BUILD
