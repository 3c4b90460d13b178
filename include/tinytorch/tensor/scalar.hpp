// Scalar: a C++ number used as an operand, which remembers if it was an integer.
#pragma once

#include <cstdint>
#include <string>
#include <tinytorch/core/dtype.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD {

// A C++ number used as an operand. It is converted to the tensor's dtype, and it is an error if the dtype
// cannot hold it (can_hold). Comparisons are the exception: they compare exactly with any number.
struct Scalar {
  double real = 0;
  int64_t integer = 0;  // the value if integral, else 0
  bool integral = false;
  template <class T>
  requires std::is_arithmetic_v<T> Scalar(T v) : real(static_cast<double>(v)) {
    if constexpr (std::is_integral_v<T>) {
      integral = true;
      if constexpr (sizeof(T) == 8 && std::is_unsigned_v<T>) {
        integral = (v >> 63) == 0;  // a number beyond int64_t is stored as real only
      }
      if (integral) integer = static_cast<int64_t>(v);
    }
  }
  std::string str() const;  // "300", "0.5"
};

// A Scalar together with the line that used it, so that an error in `x[0] = 300` names the caller's line.
struct ScalarArg {
  Scalar value;
  Loc loc;
  template <class T>
  requires std::is_arithmetic_v<T> ScalarArg(T v, Loc l = Loc::current()) : value(v), loc(l) {}
};

// True if a dtype can hold the number. Integers: numbers in their range without a fraction; bool: 0 and 1.
// Floats may round the number, but must not turn a finite number into an infinite one.
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
