// Scalar: a C++ number beside a tensor, as it was written: whole or real.
#pragma once

#include <cstdint>
#include <string>
#include <tinytorch/core/dtype.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD {

// A C++ number used as an operand. It takes the tensor's dtype; one that the dtype cannot hold (can_hold) is
// an error, but for comparisons, which answer as mathematics does.
struct Scalar {
  double real = 0;
  int64_t integer = 0;  // the value when integral, else 0
  bool integral = false;
  template <class T>
  requires std::is_arithmetic_v<T> Scalar(T v) : real(static_cast<double>(v)) {
    if constexpr (std::is_integral_v<T>) {
      integral = true;
      if constexpr (sizeof(T) == 8 && std::is_unsigned_v<T>) {
        integral = (v >> 63) == 0;  // beyond int64_t it is a real number
      }
      if (integral) integer = static_cast<int64_t>(v);
    }
  }
  std::string str() const;  // "300", "0.5"
};

// Whether a dtype has this number: for integers one in their range and without a fraction, for bool 0 and 1;
// floats round, but do not make a finite number infinite.
TT_API bool can_hold(DType dtype, Scalar value);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <cmath>
#include <cstdio>

namespace tinytorch::inline TT_BUILD {

TT_API std::string Scalar::str() const {
  if (integral) return std::to_string(integer);
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", real);
  return text;
}

TT_API bool can_hold(DType dtype, Scalar value) {
  return dispatch(dtype, [&]<class T>(T*) {
    if (is_floating(dtype))
      return !std::isfinite(value.real) || std::isfinite(convert<double>(convert<T>(value.real)));
    const bool in_range = value.real >= -0x1p63 && value.real < 0x1p63;
    if (!value.integral && !(in_range && std::floor(value.real) == value.real)) return false;
    const int64_t n = value.integral ? value.integer : static_cast<int64_t>(value.real);
    return convert<int64_t>(convert<T>(n)) == n;
  });
}

}  // namespace tinytorch::inline TT_BUILD
#endif
