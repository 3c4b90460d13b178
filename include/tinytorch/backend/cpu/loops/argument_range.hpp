// Tests whether a block of arguments is in the restricted range of a function (math::Range::ordinary), for
// which a loop without the handling of special values gives the same results.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/backend/functors.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// True if all of x are positive normal numbers. Adding one exponent step to the bits overflows infinity and
// NaN to negative integers; bits of negative numbers stay negative, and those of zeros and subnormal numbers
// stay below two steps.
template <class T>
bool all_positive_and_normal(const T* x, int64_t n) {
  using U = math::BitsOf<T>;
  using I = std::make_signed_t<U>;
  constexpr U kOneExponent = std::bit_cast<U>(std::numeric_limits<T>::min());
  I least = std::numeric_limits<I>::max();
  for (int64_t i = 0; i < n; ++i)
    least = std::min(least, static_cast<I>(std::bit_cast<U>(x[i]) + kOneExponent));
  return least >= static_cast<I>(2 * kOneExponent);
}

// True if fn has a faster version for arguments in a restricted range.
template <UnaryFn fn, class T>
constexpr bool tells_ordinary() {
  using enum UnaryFn;
  if constexpr (fn == exp || fn == log || fn == sigmoid || fn == silu) return std::is_floating_point_v<T>;
  return std::is_same_v<T, float> && (fn == tanh || fn == sin || fn == cos);
}
// True if all of x are in the restricted range of fn.
template <UnaryFn fn, class T>
bool all_ordinary(const T* x, int64_t n) {
  using enum UnaryFn;
  using F = math::Format<T>;
  if constexpr (fn == log) return all_positive_and_normal(x, n);
  if constexpr (fn == tanh) return all_within(F::kOrdinaryTanh, x, n);
  if constexpr (fn == sin || fn == cos) return all_within(math::kMaxTrigArgument, x, n);
  if constexpr (fn == exp || fn == sigmoid || fn == silu) return all_within(F::kOrdinaryExp, x, n);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
