// The few parts of the standard library that the functions of elements use, as text without any header.
//
// A generated kernel includes no standard header, because <cmath> and <limits> alone take ten times as long
// to compile as the kernel. The text defines what backend/functors.hpp and the headers below it need.
#pragma once

#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD::acceleration {

inline constexpr const char* kPreludeShim = R"shim(
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
namespace std {
using ::int8_t, ::int16_t, ::int32_t, ::int64_t, ::uint8_t, ::uint16_t, ::uint32_t, ::uint64_t, ::size_t;
template <bool b, class X, class Y> struct conditional { using type = X; };
template <class X, class Y> struct conditional<false, X, Y> { using type = Y; };
template <bool b, class X, class Y> using conditional_t = typename conditional<b, X, Y>::type;
template <class X, class Y> inline constexpr bool is_same_v = false;
template <class X> inline constexpr bool is_same_v<X, X> = true;
template <class X> inline constexpr bool is_floating_point_v = is_same_v<X, float> || is_same_v<X, double>;
template <class X> struct sign_pair {};
#define TT_PAIR(s, u) \
  template <> struct sign_pair<s> { using with = s; using without = u; }; \
  template <> struct sign_pair<u> { using with = s; using without = u; };
TT_PAIR(int8_t, uint8_t) TT_PAIR(int16_t, uint16_t) TT_PAIR(int32_t, uint32_t) TT_PAIR(int64_t, uint64_t)
#undef TT_PAIR
template <class X> using make_signed_t = typename sign_pair<X>::with;
template <class X> using make_unsigned_t = typename sign_pair<X>::without;
template <class X> inline constexpr bool is_integral_v = requires { typename sign_pair<X>::with; } || is_same_v<X, bool>;
template <class To, class From> [[gnu::always_inline]] constexpr inline To bit_cast(const From& x) {
  return __builtin_bit_cast(To, x);
}
template <class X> struct numeric_limits {  // integers
  static constexpr X min() { return X(-1) < X(0) ? X(X(1) << (8 * sizeof(X) - 1)) : X(0); }
  static constexpr X max() { return X(~min()); }
};
template <> struct numeric_limits<float> {
  static constexpr float min() { return __FLT_MIN__; }
  static constexpr float max() { return __FLT_MAX__; }
  static constexpr float lowest() { return -__FLT_MAX__; }
  static constexpr float epsilon() { return __FLT_EPSILON__; }
  static constexpr float infinity() { return __builtin_huge_valf(); }
  static constexpr float quiet_NaN() { return __builtin_nanf(""); }
};
template <> struct numeric_limits<double> {
  static constexpr double min() { return __DBL_MIN__; }
  static constexpr double max() { return __DBL_MAX__; }
  static constexpr double lowest() { return -__DBL_MAX__; }
  static constexpr double epsilon() { return __DBL_EPSILON__; }
  static constexpr double infinity() { return __builtin_huge_val(); }
  static constexpr double quiet_NaN() { return __builtin_nan(""); }
};
#define TT_UNARY(name) \
  inline float name(float x) { return __builtin_##name##f(x); } \
  inline double name(double x) { return __builtin_##name(x); }
TT_UNARY(sqrt) TT_UNARY(floor) TT_UNARY(ceil) TT_UNARY(nearbyint) TT_UNARY(trunc) TT_UNARY(round)
TT_UNARY(exp) TT_UNARY(exp2) TT_UNARY(expm1) TT_UNARY(log) TT_UNARY(log2) TT_UNARY(log1p) TT_UNARY(sin)
TT_UNARY(cos) TT_UNARY(tan) TT_UNARY(tanh) TT_UNARY(sinh) TT_UNARY(cosh) TT_UNARY(atan) TT_UNARY(erf) TT_UNARY(erfc)
#undef TT_UNARY
inline float abs(float x) { return __builtin_fabsf(x); }
inline double abs(double x) { return __builtin_fabs(x); }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float pow(float a, float b) { return __builtin_powf(a, b); }
inline double pow(double a, double b) { return __builtin_pow(a, b); }
inline float copysign(float a, float b) { return __builtin_copysignf(a, b); }
inline double copysign(double a, double b) { return __builtin_copysign(a, b); }
inline bool isnan(float x) { return x != x; }
inline bool isnan(double x) { return x != x; }
template <class X> constexpr const X& max(const X& a, const X& b) { return a < b ? b : a; }
template <class X> constexpr const X& min(const X& a, const X& b) { return b < a ? b : a; }
}  // namespace std
namespace tinytorch {
template <class... A> [[noreturn]] void fail(A...) { __builtin_trap(); }
template <class... A> [[noreturn]] void todo(A...) { __builtin_trap(); }
}  // namespace tinytorch
)shim";

}  // namespace tinytorch::inline TT_BUILD::acceleration
