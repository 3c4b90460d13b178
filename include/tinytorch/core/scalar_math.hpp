// Elementary functions written so that a loop over them vectorizes: no calls, no branches, no tables.
//
// A libm call costs 12 to 40 times a fused vector evaluation. Each function here is range reduction, a
// polynomial, and bit arithmetic. Polynomials are Taylor series (their interval is small enough) except erf,
// which is a Chebyshev fit. Errors against the exact value, float: exp 1.1 ulp, log 2, tanh 3, erf 3, sin and
// cos 1.7 while |x| <= kMaxTrigArgument. Special values as in C: exp(-inf) = 0, log(0) = -inf, log(-1) = NaN,
// NaN in NaN out. double: exp and log here, the rest from libm.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tinytorch/core/config.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD::math {

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// Constants of the two binary formats: mantissa bits, exponent bias, and 1.5 * 2^mantissa, whose addition
// rounds to an integer and leaves it in the low bits.
template <class T>
struct Format;
template <>
struct Format<float> {
  static constexpr int kMantissa = 23, kBias = 127;
  static constexpr float kRound = 0x1.8p23f, kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr float kExpMax = 88.8f, kExpMin = -104.0f, kMinNormal = 0x1p-126f,
                         kSubnormalScale = 0x1p24f;
};
template <>
struct Format<double> {
  static constexpr int kMantissa = 52, kBias = 1023;
  static constexpr double kRound = 0x1.8p52, kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
  static constexpr double kExpMax = 709.9, kExpMin = -746.0, kMinNormal = 0x1p-1022, kSubnormalScale = 0x1p54;
};

// 2^n for the integer that was rounded into the low bits of t; |n| may exceed the exponent range, hence two
// factors.
template <class T>
TT_HOST_DEVICE inline T scale_by_power_of_two(T y, T t) {
  using U = BitsOf<T>;
  using F = Format<T>;
  using I = std::make_signed_t<U>;
  const I n = static_cast<I>(std::bit_cast<U>(t) - std::bit_cast<U>(F::kRound));
  const I half = n >> 1;
  const T a = std::bit_cast<T>(static_cast<U>(half + F::kBias) << F::kMantissa);
  const T b = std::bit_cast<T>(static_cast<U>(n - half + F::kBias) << F::kMantissa);
  return y * a * b;
}

// e^r - 1 for |r| <= ln(2)/2, Taylor to degree 7 (float) or 13 (double).
template <class T>
TT_HOST_DEVICE inline T expm1_reduced(T r) {
  T p;
  if constexpr (sizeof(T) == 4) {
    p = T(1.0 / 5040);
  } else {
    p = T(1.0 / 6227020800.0);
    p = p * r + T(1.0 / 479001600);
    p = p * r + T(1.0 / 39916800);
    p = p * r + T(1.0 / 3628800);
    p = p * r + T(1.0 / 362880);
    p = p * r + T(1.0 / 40320);
    p = p * r + T(1.0 / 5040);
  }
  p = p * r + T(1.0 / 720);
  p = p * r + T(1.0 / 120);
  p = p * r + T(1.0 / 24);
  p = p * r + T(1.0 / 6);
  p = p * r + T(0.5);
  return p * (r * r) + r;
}

template <class T>
TT_HOST_DEVICE inline T exp(T x) {
  using F = Format<T>;
  x = x > F::kExpMax ? F::kExpMax : x;  // written so that NaN passes
  x = x < F::kExpMin ? F::kExpMin : x;
  const T t = x * T(1.4426950408889634) + F::kRound;
  const T n = t - F::kRound;
  const T r = (x - n * F::kLn2High) - n * F::kLn2Low;
  return scale_by_power_of_two(T(1) + expm1_reduced(r), t);
}

// e^x - 1 without cancellation near 0; for x in (-80, 80), which its users ensure.
TT_HOST_DEVICE inline float expm1_bounded(float x) {
  using F = Format<float>;
  const float t = x * 1.44269504f + F::kRound;
  const float n = t - F::kRound;
  const float r = (x - n * F::kLn2High) - n * F::kLn2Low;
  const float power = scale_by_power_of_two(1.0f, t);
  return power * expm1_reduced(r) + (power - 1.0f);
}

// log(x) = e ln2 + 2 atanh(s), s = (m-1)/(m+1), with x = m 2^e and m in [sqrt(1/2), sqrt(2)).
template <class T>
TT_HOST_DEVICE inline T log(T x) {
  using U = BitsOf<T>;
  using I = std::make_signed_t<U>;
  using F = Format<T>;
  const bool tiny = x < F::kMinNormal;
  const T scaled = tiny ? x * F::kSubnormalScale : x;
  const U bits = std::bit_cast<U>(scaled);
  const U sqrt_half = std::bit_cast<U>(T(0.70710678118654752));
  const I e = static_cast<I>(bits - sqrt_half) >> F::kMantissa;
  const T m = std::bit_cast<T>(bits - (static_cast<U>(e) << F::kMantissa));
  // |e| < 2^11, so adding it to kRound's bits and subtracting kRound converts it to T without a slow
  // instruction.
  const T exponent = std::bit_cast<T>(std::bit_cast<U>(F::kRound) + static_cast<U>(e)) - F::kRound -
                     (tiny ? (sizeof(T) == 4 ? T(24) : T(54)) : T(0));
  const T f = m - T(1);
  const T s = f / (f + T(2));
  const T z = s * s;
  T p;
  if constexpr (sizeof(T) == 4) {
    p = T(2.0 / 9);
  } else {
    p = T(2.0 / 21);
    p = p * z + T(2.0 / 19);
    p = p * z + T(2.0 / 17);
    p = p * z + T(2.0 / 15);
    p = p * z + T(2.0 / 13);
    p = p * z + T(2.0 / 11);
    p = p * z + T(2.0 / 9);
  }
  p = p * z + T(2.0 / 7);
  p = p * z + T(2.0 / 5);
  p = p * z + T(2.0 / 3);
  // 2s = f - s f exactly enough: keeps the rounding error of s out of the leading term.
  T y = exponent * F::kLn2High + (f - (s * (f - p * z) - exponent * F::kLn2Low));
  y = x == std::numeric_limits<T>::infinity() ? x : y;
  y = x == T(0) ? -std::numeric_limits<T>::infinity() : y;
  return x < T(0) || x != x ? std::numeric_limits<T>::quiet_NaN() : y;
}

TT_HOST_DEVICE inline float tanh(float x) {
  float a = x > 10.0f ? 10.0f : x;  // tanh(10) rounds to 1; NaN passes
  a = a < -10.0f ? -10.0f : a;
  const float e = expm1_bounded(2.0f * a);
  return e / (e + 2.0f);
}
TT_HOST_DEVICE inline double tanh(double x) { return std::tanh(x); }

// Below 1: x P(x^2). Above: 1 - exp(Q(x)), Q a fit of log(erfc). Coefficients: Chebyshev fits on [0,1],
// [0.95,4].
TT_HOST_DEVICE inline float erf(float x) {
  const float a = x < 0.0f ? -x : x;
  const float s = a * a;
  float p = 7.87587506e-5f;
  p = p * s - 8.01686429e-4f;
  p = p * s + 5.18908742e-3f;
  p = p * s - 2.68542120e-2f;
  p = p * s + 1.12835947e-1f;
  p = p * s - 3.76126267e-1f;
  p = p * s + 1.28379166e-1f;
  const float near_zero = p * a + a;
  const float c = a > 4.0f ? 4.0f : a;
  float q = 1.64267897e-6f;
  q = q * c - 4.61647852e-5f;
  q = q * c + 5.97677275e-4f;
  q = q * c - 4.76350966e-3f;
  q = q * c + 2.64316433e-2f;
  q = q * c - 1.10097243e-1f;
  q = q * c - 6.31809550e-1f;
  q = q * c - 1.13024188f;
  q = q * c + 3.21866258e-4f;
  const float y = a < 1.0f ? near_zero : 1.0f - math::exp(q);
  return x < 0.0f ? -y : (x != x ? x : y);
}
TT_HOST_DEVICE inline double erf(double x) { return std::erf(x); }

// Up to here the reduction by multiples of pi/2, done in double, leaves a float's worth of correct bits.
inline constexpr float kMaxTrigArgument = 0x1p20f;

// sin(x + quarter * pi/2). The multiple of pi/2 is taken off in double, the rest is float: minimax
// polynomials on [-pi/4, pi/4] (Moshier, Cephes).
TT_HOST_DEVICE inline float sin_shifted(float x, uint32_t quarter) {
  const float t = x * 0.636619772f + Format<float>::kRound;
  const auto n = static_cast<double>(t - Format<float>::kRound);
  // pi/2 in 33 + 53 bits
  const auto r =
      static_cast<float>((static_cast<double>(x) - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34);
  const uint32_t q = std::bit_cast<uint32_t>(t) + quarter;  // low bits of t hold n
  const float z = r * r;
  float s = -1.9515295891e-4f;
  s = s * z + 8.3321608736e-3f;
  s = s * z - 1.6666654611e-1f;
  s = s * z * r + r;
  float c = 2.443315711809948e-5f;
  c = c * z - 1.388731625493765e-3f;
  c = c * z + 4.166664568298827e-2f;
  c = c * z * z + (1.0f - 0.5f * z);
  const float y = (q & 1) != 0 ? c : s;
  return (q & 2) != 0 ? -y : y;
}
TT_HOST_DEVICE inline float sin(float x) { return sin_shifted(x, 0); }
TT_HOST_DEVICE inline float cos(float x) { return sin_shifted(x, 1); }
TT_HOST_DEVICE inline double sin(double x) { return std::sin(x); }
TT_HOST_DEVICE inline double cos(double x) { return std::cos(x); }

}  // namespace tinytorch::inline TT_BUILD::math
