// Simd<T>: a vector of T that fills one register: 64 bytes with AVX-512, 32 with AVX, else 16.
//
// Built on the vector extensions of GCC and clang: + - * /, comparisons and ?: work lane by lane. It is used
// where a plain loop would not vectorize because the order of additions matters: reductions and matrix
// products.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <tinytorch/core/config.hpp>
#include <type_traits>
#include <utility>

namespace tinytorch::inline TT_BUILD {

#if defined(__AVX512F__)
inline constexpr int kSimdBytes = 64;
#elif defined(__AVX__)
inline constexpr int kSimdBytes = 32;
#else
inline constexpr int kSimdBytes = 16;
#endif

template <class T, int64_t kBytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(kBytes), may_alias));
};
template <class T>
using Simd = typename VectorOf<T, kSimdBytes>::type;
template <class T>
inline constexpr int64_t kLanes = kSimdBytes / static_cast<int64_t>(sizeof(T));

// A vector of S with as many lanes as Simd<T>.
template <class S, class T>
using SameLanes = typename VectorOf<S, kLanes<T>* static_cast<int64_t>(sizeof(S))>::type;

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

// Forces v into a register from here on. Without this, g++ tuned for some processors reloads it from memory
// at each use, in loops that are limited by loads. On processors other than x86 it does nothing.
template <class V>
[[gnu::always_inline]] inline void keep_in_register([[maybe_unused]] V& v) {
#if defined(__AVX512F__)
  asm("" : "+v"(v));
#elif defined(__SSE2__)
  asm("" : "+x"(v));
#endif
}

// Lane i of the result is lane from(i) of the concatenation of a and b, where the first lane of b has number
// kLanes<T>. `from` must capture nothing.
#if defined(__clang__)
namespace detail {
template <class V, class From, int64_t... kLane>
V shuffle_lanes(V a, V b, From from, std::integer_sequence<int64_t, kLane...>) {
  return __builtin_shufflevector(a, b, from(kLane)...);
}
}  // namespace detail
template <class T, class From>
inline Simd<T> simd_shuffle(Simd<T> a, Simd<T> b, From from) {
  return detail::shuffle_lanes(a, b, from, std::make_integer_sequence<int64_t, kLanes<T>>());
}
#else
template <class T, class From>
inline Simd<T> simd_shuffle(Simd<T> a, Simd<T> b, From) {
  using Numbers = decltype(a < b);  // nvcc cannot expand the pack above, so the indices are a constant vector
  using Number = std::remove_reference_t<decltype(Numbers{}[0])>;
  static constexpr auto lanes = [] {
    std::array<Number, kLanes<T>> each{};
    for (int64_t i = 0; i < kLanes<T>; ++i) each[static_cast<size_t>(i)] = static_cast<Number>(From{}(i));
    return each;
  }();
  Numbers numbers;
  std::memcpy(&numbers, lanes.data(), sizeof numbers);
  return __builtin_shuffle(a, b, numbers);
}
#endif

// Reduces all lanes to one by `join`: the two halves are joined, then the halves of the result, and so on.
template <class T, int64_t kHalf = kLanes<T> / 2, class Join>
T simd_fold(Simd<T> v, Join join) {
  v = join(v, simd_shuffle<T>(v, v, [](int64_t i) { return (i + kHalf) % kLanes<T>; }));
  if constexpr (kHalf == 1) return v[0];
  if constexpr (kHalf > 1) return simd_fold<T, kHalf / 2>(v, join);
}

}  // namespace tinytorch::inline TT_BUILD
