// The few parts of the standard library that the functions of elements use, as text without any header.
//
// A generated kernel includes no standard header, because <cmath> and <limits> alone take ten times as long
// to compile as the kernel. The text defines what backend/functors.hpp and the headers below it need.
#pragma once

#include <string>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD::acceleration {

inline constexpr const char* kShimHostTypes = R"shim(
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
)shim";

// NVRTC has no macros for types, and knows size_t.
inline constexpr const char* kShimDeviceTypes = R"shim(
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
)shim";

inline constexpr const char* kShimTypes = R"shim(
namespace std {
using ::int8_t, ::int16_t, ::int32_t, ::int64_t, ::uint8_t, ::uint16_t, ::uint32_t, ::uint64_t, ::size_t;
template <bool b, class X, class Y> struct conditional { using type = X; };
template <class X, class Y> struct conditional<false, X, Y> { using type = Y; };
template <bool b, class X, class Y> using conditional_t = typename conditional<b, X, Y>::type;
template <class X, class Y> inline constexpr bool is_same_v = false;
template <class X> inline constexpr bool is_same_v<X, X> = true;
template <class X> inline constexpr bool is_floating_point_v = is_same_v<X, float> || is_same_v<X, double>;
template <class X> struct sign_pair {};
template <class S, class U> struct signs { using with = S; using without = U; };
template <> struct sign_pair<int8_t> : signs<int8_t, uint8_t> {};
template <> struct sign_pair<uint8_t> : signs<int8_t, uint8_t> {};
template <> struct sign_pair<int16_t> : signs<int16_t, uint16_t> {};
template <> struct sign_pair<uint16_t> : signs<int16_t, uint16_t> {};
template <> struct sign_pair<int32_t> : signs<int32_t, uint32_t> {};
template <> struct sign_pair<uint32_t> : signs<int32_t, uint32_t> {};
template <> struct sign_pair<int64_t> : signs<int64_t, uint64_t> {};
template <> struct sign_pair<uint64_t> : signs<int64_t, uint64_t> {};
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
  static constexpr float min() { return 0x1p-126f; }
  static constexpr float max() { return 0x1.fffffep127f; }
  static constexpr float lowest() { return -0x1.fffffep127f; }
  static constexpr float epsilon() { return 0x1p-23f; }
  static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000u); }
  static constexpr float quiet_NaN() { return __builtin_bit_cast(float, 0x7fc00000u); }
};
template <> struct numeric_limits<double> {
  static constexpr double min() { return 0x1p-1022; }
  static constexpr double max() { return 0x1.fffffffffffffp1023; }
  static constexpr double lowest() { return -0x1.fffffffffffffp1023; }
  static constexpr double epsilon() { return 0x1p-52; }
  static constexpr double infinity() { return __builtin_bit_cast(double, uint64_t(0x7ff) << 52); }
  static constexpr double quiet_NaN() { return __builtin_bit_cast(double, uint64_t(0xfff) << 51); }
};
inline bool isnan(float x) { return x != x; }
inline bool isnan(double x) { return x != x; }
template <class X> constexpr const X& max(const X& a, const X& b) { return a < b ? b : a; }
template <class X> constexpr const X& min(const X& a, const X& b) { return b < a ? b : a; }
}  // namespace std
)shim";

// Functions of the C library by the compiler's names for them; they stand in namespace std.
inline constexpr const char* kShimHostFunctions = R"shim(
inline float abs(float x) { return __builtin_fabsf(x); }
inline double abs(double x) { return __builtin_fabs(x); }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float pow(float a, float b) { return __builtin_powf(a, b); }
inline double pow(double a, double b) { return __builtin_pow(a, b); }
inline float copysign(float a, float b) { return __builtin_copysignf(a, b); }
inline double copysign(double a, double b) { return __builtin_copysign(a, b); }
)shim";

// Functions of the C library on a GPU, which the device compiler knows by their C names.
inline constexpr const char* kShimDeviceFunctions = R"shim(
inline float abs(float x) { return ::fabsf(x); }
inline double abs(double x) { return ::fabs(x); }
inline float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
inline double fma(double a, double b, double c) { return ::fma(a, b, c); }
inline float pow(float a, float b) { return ::powf(a, b); }
inline double pow(double a, double b) { return ::pow(a, b); }
inline float copysign(float a, float b) { return ::copysignf(a, b); }
inline double copysign(double a, double b) { return ::copysign(a, b); }
)shim";

// Definitions of fail() and todo(), because the course's starter files call them; a kernel never reaches
// them.
inline constexpr const char* kShimErrors = R"shim(
namespace tinytorch {
template <class... A> [[noreturn]] void fail(A...) { __builtin_trap(); }
template <class... A> [[noreturn]] void todo(A...) { __builtin_trap(); }
}  // namespace tinytorch
)shim";

// The whole text, for the CPU or for a GPU. A function of one argument is __builtin_<name> on the CPU and
// ::<name> on a GPU, and for float it ends with an f.
inline std::string prelude_shim(bool device = false) {
  std::string functions =
      std::string("namespace std {\n") + (device ? kShimDeviceFunctions : kShimHostFunctions);
  const std::string prefix = device ? "::" : "__builtin_";
  for (const std::string name :
       {"sqrt",  "floor", "ceil", "nearbyint", "trunc", "round", "exp",  "exp2", "expm1", "log", "log2",
        "log1p", "sin",   "cos",  "tan",       "tanh",  "sinh",  "cosh", "atan", "erf",   "erfc"}) {
    functions += "inline float " + name + "(float x) { return " + prefix + name + "f(x); }\n";
    functions += "inline double " + name + "(double x) { return " + prefix + name + "(x); }\n";
  }
  return (device ? kShimDeviceTypes : kShimHostTypes) + std::string(kShimTypes) + functions + "}\n" +
         kShimErrors;
}

}  // namespace tinytorch::inline TT_BUILD::acceleration
