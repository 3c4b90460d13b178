// Divisions with a whole quotient: floor_divide, remainder and fmod of two numbers, shared by CPU loops and
// CUDA kernels.
//
// fmod(a, b) = a - trunc(a / b) b has the sign of a and is exact in every floating type. remainder has the
// sign of b, as Python's %, and a = floor_divide(a, b) b + remainder(a, b) up to rounding. T is the compute
// type of functors.hpp. Source: PyTorch's div_floor and remainder, which follow Python's float.__divmod__.
#pragma once

#include <cmath>
#include <cstdint>
#include <tinytorch/core/config.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD::backend {

enum class Division : uint8_t { floor, remainder, fmod };

template <class T>
TT_HOST_DEVICE inline T floor_quotient(T a, T b) {
  if (b == T(0)) return a / b;
  const T rest = std::fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != T(0) && (b < T(0)) != (rest < T(0))) quotient -= T(1);
  if (quotient == T(0)) return std::copysign(T(0), a / b);
  const T whole = std::floor(quotient);  // differs from the quotient by its rounding only
  return quotient - whole > T(0.5) ? whole + T(1) : whole;
}

// a divided by b. An integer b is not 0.
template <Division fn, class T>
TT_HOST_DEVICE inline T division_value(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if (b == T(-1)) return fn == Division::floor ? static_cast<T>(U(0) - static_cast<U>(a)) : T(0);
    if (b == T(0)) return T(0);
    const T rest = static_cast<T>(a % b);
    const bool other_sign = rest != T(0) && (rest < T(0)) != (b < T(0));
    if constexpr (fn == Division::floor) return static_cast<T>(a / b - (other_sign ? 1 : 0));
    if constexpr (fn == Division::remainder) return static_cast<T>(other_sign ? rest + b : rest);
    return rest;
  } else {
    if constexpr (fn == Division::floor) return floor_quotient(a, b);
    const T rest = std::fmod(a, b);
    if constexpr (fn == Division::fmod) return rest;
    return rest != T(0) && (rest < T(0)) != (b < T(0)) ? rest + b : rest;
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend
