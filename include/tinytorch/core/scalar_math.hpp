// Elementary functions without calls, branches or tables, so that a loop over them vectorizes.
//
// A libm call costs 12 to 40 times as much as a vectorized evaluation in a fused loop. Each function is a
// range reduction, a polynomial and bit arithmetic. The coefficients are minimax fits for float, and Taylor's
// for double. Errors of float against the exact value: exp 1.1 ulp, log 1, tanh 2.7, erf 1.5, sin and cos 1.9
// while |x| <= kMaxTrigArgument; `bench_math_errors` measures them over all floats. Special values are those
// of C: exp(-inf) = 0, log(0) = -inf, log(-1) = NaN, and NaN gives NaN. For double, exp and log are computed
// here, and the other functions come from libm.
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

// Assumption of a function about its argument. An `ordinary` argument is one for which no zero, infinity,
// NaN or subnormal result needs special treatment, which saves a third of the work; the result is bitwise the
// same. Each function below states which arguments are ordinary; all_ordinary() in
// backend/cpu/loops/argument_range.hpp tests for them. `below_zero` arguments are at most 0, up to rounding,
// as are the exponents in softmax: nothing overflows, and results below the normal numbers may be flushed to
// 0.
enum class Range : uint8_t { all, ordinary, below_zero };

// Constants of the two binary formats: mantissa bits, exponent bias, and 1.5 * 2^mantissa, whose addition
// rounds to an integer and leaves it in the low bits.
template <class T>
struct Format;
template <>
struct Format<float> {
  static constexpr int kMantissa = 23, kBias = 127;
  static constexpr float kRound = 0x1.8p23f, kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr float kExpMax = 88.8f, kExpMin = -104.0f, kExpToZero = -88.0f, kMinNormal = 0x1p-126f,
                         kSubnormalScale = 0x1p24f, kSubnormalExponent = 24;
  static constexpr float kOrdinaryExp = 87, kOrdinaryTanh = 10;
};
template <>
struct Format<double> {
  static constexpr int kMantissa = 52, kBias = 1023;
  static constexpr double kRound = 0x1.8p52, kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
  static constexpr double kExpMax = 709.9, kExpMin = -746.0, kExpToZero = -709.0, kMinNormal = 0x1p-1022,
                          kSubnormalScale = 0x1p54, kSubnormalExponent = 54;
  static constexpr double kOrdinaryExp = 708;
};

// a b + c, rounded once where this is one instruction. Needed where a sum of two products would let the
// compiler choose which product to fuse: a formula must give the same bits wherever it is inlined.
template <class T>
TT_HOST_DEVICE inline T multiply_add(T a, T b, T c) {
#if TT_FMA
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

// c_0 x^n + c_1 x^(n-1) + ... + c_n by Horner's rule.
template <class T, class... C>
TT_HOST_DEVICE inline T polynomial(T x, T c0, C... c) {
  ((c0 = c0 * x + static_cast<T>(c)), ...);
  return c0;
}

// 2^n for the integer n that was rounded into the low bits of t. 2^n must be a normal number, or n = -127,
// which gives 0.
template <class T>
TT_HOST_DEVICE inline T power_of_two(T t) {
  using U = BitsOf<T>;
  using F = Format<T>;
  return std::bit_cast<T>((std::bit_cast<U>(t) - std::bit_cast<U>(F::kRound) + F::kBias) << F::kMantissa);
}

// y 2^n for the integer n that was rounded into the low bits of t. |n| may exceed the exponent range, so 2^n
// is applied as two factors. If y and y 2^n are normal numbers, adding n to y's exponent is enough.
template <class T, Range range = Range::all>
TT_HOST_DEVICE inline T scale_by_power_of_two(T y, T t) {
  using U = BitsOf<T>;
  using F = Format<T>;
  if constexpr (range == Range::ordinary)  // the bits of kRound are shifted out
    return std::bit_cast<T>(std::bit_cast<U>(y) + (std::bit_cast<U>(t) << F::kMantissa));
  using I = std::make_signed_t<U>;
  const I n = static_cast<I>(std::bit_cast<U>(t) - std::bit_cast<U>(F::kRound));
  const I half = n >> 1;
  const T a = std::bit_cast<T>(static_cast<U>(half + F::kBias) << F::kMantissa);
  const T b = std::bit_cast<T>(static_cast<U>(n - half + F::kBias) << F::kMantissa);
  return y * a * b;
}

// e^r - 1 = r + r^2 P(r) for |r| <= ln(2)/2: a minimax fit for float, Taylor to degree 13 for double.
TT_HOST_DEVICE inline float expm1_reduced(float r) {
  return polynomial(r, 1.38146028e-3f, 8.36871583e-3f, 4.16683879e-2f, 1.66665206e-1f, 0.499999934f) *
             (r * r) +
         r;
}
TT_HOST_DEVICE inline double expm1_reduced(double r) {
  return polynomial(r, 1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0,
                    1 / 40320.0, 1 / 5040.0, 1 / 720.0, 1 / 120.0, 1 / 24.0, 1 / 6.0, 0.5) *
             (r * r) +
         r;
}

// Ordinary: |x| <= kOrdinaryExp, where e^x is a normal number.
template <Range range = Range::all, class T>
TT_HOST_DEVICE inline T exp(T x) {
  using F = Format<T>;
  if constexpr (range == Range::all) {
    x = x > F::kExpMax ? F::kExpMax : x;  // a NaN fails both comparisons and is kept
    x = x < F::kExpMin ? F::kExpMin : x;
  } else if constexpr (range == Range::below_zero) {
    x = x < F::kExpToZero ? F::kExpToZero : x;  // its power of two is 0
  }
  const T t = x * T(1.4426950408889634) + F::kRound;
  const T n = t - F::kRound;
  const T r = (x - n * F::kLn2High) - n * F::kLn2Low;
  const T y = T(1) + expm1_reduced(r);
  return range == Range::below_zero ? y * power_of_two(t) : scale_by_power_of_two<T, range>(y, t);
}

// e^x - 1 without cancellation near 0; the caller ensures that x is in (-80, 80).
TT_HOST_DEVICE inline float expm1_bounded(float x) {
  using F = Format<float>;
  const float t = x * 1.44269504f + F::kRound;
  const float n = t - F::kRound;
  const float r = (x - n * F::kLn2High) - n * F::kLn2Low;
  const float power = power_of_two(t);
  return power * expm1_reduced(r) + (power - 1.0f);
}

// log(1 + f) - f for f in [-1/3, 1/3]. float: a polynomial, because a division costs as much as its last six
// terms. double: -s (f - z p), where s = f / (f + 2), z = s^2 and 2 atanh(s) = 2 s + s z p; in this form the
// rounding error of s does not reach the leading term.
TT_HOST_DEVICE inline float log1p_reduced(float f) {
  // The fit minimizes the relative error of the logarithm.
  return f * f *
         polynomial(f, -0.128917146f, 0.139844729f, -0.12184255f, 0.140058622f, -0.166804877f, 0.200104063f,
                    -0.249997977f, 0.33333216f, -0.5f);
}
TT_HOST_DEVICE inline double log1p_reduced(double f) {
  const double s = f / (f + 2);
  const double z = s * s;
  const double p = polynomial(z, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7,
                              2.0 / 5, 2.0 / 3);
  return s * (p * z - f);
}

// log(x) = e ln2 + log(1 + f), with x = (1 + f) 2^e and 1 + f in [2/3, 4/3). Positive normal numbers are
// ordinary.
template <Range range = Range::all, class T>
TT_HOST_DEVICE inline T log(T x) {
  using U = BitsOf<T>;
  using I = std::make_signed_t<U>;
  using F = Format<T>;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const bool tiny = range == Range::all && x < F::kMinNormal;
  const U bits = std::bit_cast<U>(x * (tiny ? F::kSubnormalScale : T(1)));
  const I e = static_cast<I>(bits - std::bit_cast<U>(T(2) / T(3))) >> F::kMantissa;
  const T f = std::bit_cast<T>(bits - (static_cast<U>(e) << F::kMantissa)) - T(1);
  // Because |e| < 2^11, adding e to the bits of kRound and then subtracting kRound converts e to T without a
  // slow instruction.
  const T exponent = std::bit_cast<T>(std::bit_cast<U>(F::kRound) + static_cast<U>(e)) -
                     (F::kRound + (tiny ? F::kSubnormalExponent : T(0)));
  T y = exponent * F::kLn2High + (f + multiply_add(exponent, F::kLn2Low, log1p_reduced(f)));
  if constexpr (range == Range::ordinary) return y;
  const T outside = x == T(0) ? -kInfinity : std::numeric_limits<T>::quiet_NaN();
  y = x > T(0) ? y : outside;
  return x < kInfinity ? y : x;  // NaN stays NaN
}

// Arguments with |x| <= kOrdinaryTanh are ordinary; beyond that, tanh rounds to 1 or -1.
template <Range range = Range::all>
TT_HOST_DEVICE inline float tanh(float x) {
  float a = x;
  if constexpr (range == Range::all) {
    constexpr float kMost = Format<float>::kOrdinaryTanh;
    a = a > kMost ? kMost : a;  // NaN stays NaN
    a = a < -kMost ? -kMost : a;
  }
  const float e = expm1_bounded(2.0f * a);
  return std::copysign(e / (e + 2.0f), x);  // -0 stays -0
}
template <Range range = Range::all>
TT_HOST_DEVICE inline double tanh(double x) {
  return std::tanh(x);
}

// 2^q with a relative error of 1e-7, for q that rounds to an integer from -127 (which gives 0) to 127.
TT_HOST_DEVICE inline float exp2_bounded(float q) {
  const float t = q + Format<float>::kRound;
  const float f = q - (t - Format<float>::kRound), f2 = f * f;
  const float odd = polynomial(f2, 1.32647273e-3f, 5.55073358e-2f, 6.93147004e-1f);
  const float even = polynomial(f2, 9.67151299e-3f, 2.40222424e-1f);
  return (1.0f + f * (odd + f * even)) * power_of_two(t);
}

// |x| < 1: x + x P(x^2). Otherwise: 1 - 2^Q(|x|), where Q is a fit of log2(erfc). Because 2^Q is at most
// 0.16, it may be less accurate than exp.
TT_HOST_DEVICE inline float erf(float x) {
  const float a = std::abs(x);
  const float near_zero =
      a + a * polynomial(a * a, 7.87587506e-5f, -8.01686429e-4f, 5.18908742e-3f, -2.68542120e-2f,
                         1.12835947e-1f, -3.76126267e-1f, 1.28379166e-1f);
  const float c = a > 3.93f ? 3.93f : a;  // erf(3.93) rounds to 1
  const float q = polynomial(c, 2.67727664e-4f, -4.24096668e-3f, 3.14584655e-2f, -1.4865159e-1f,
                             -9.20764914e-1f, -1.62597514f, -5.10292395e-4f);
  return std::copysign(a < 1.0f ? near_zero : 1.0f - exp2_bounded(q), x);
}
TT_HOST_DEVICE inline double erf(double x) { return std::erf(x); }

// Normal distribution: P(X <= x) = (1 + erf(x / sqrt(2))) / 2. For x <= 0 it is 2^Q(|x|), which avoids the
// cancellation of 1 + erf, and 0 from -11 on; for x > 0 it is 1 - 2^Q(x). Odd and even powers of Q are two
// separate chains, so that each dependency chain is half as long. The absolute error is 1.3e-7; for x < 0 the
// relative error is 4e-4 down to -5, and a few percent down to -6.5.
TT_HOST_DEVICE inline float normal_cdf(float x) {
  float a = std::abs(x);
  a = a > 10.96f ? 10.96f : a;  // Q is -127 there; NaN stays NaN
  const float a2 = a * a;
  const float odd = polynomial(a2, 2.16825883e-5f, -3.10887524e-4f, -5.2614335e-2f, -1.15110791f);
  const float even = polynomial(a2, -1.3009211e-6f, -1.07286913e-4f, 7.26436777e-3f, -4.59176928e-1f);
  const float tail = exp2_bounded(a * (odd + a * even) - 1.0f);
  return x > 0.0f ? 1.0f - tail : tail;
}
TT_HOST_DEVICE inline double normal_cdf(double x) { return 0.5 * std::erfc(x * -0.70710678118654752); }

// Largest argument for which the reduction by multiples of pi/2 is accurate to float precision.
inline constexpr float kMaxTrigArgument = 0x1p20f;

// x - n pi/2 for an integer n, as if computed exactly and rounded once. With fused multiply-add, the first
// step is exact and the later ones round only the small remainder. Without it, the products need double
// precision.
TT_HOST_DEVICE inline float subtract_quarters(float x, float n) {
#if TT_FMA
  // pi/2 as the sum of three constants of 24 bits
  return std::fma(n, 0x1.ee59dap-50f, std::fma(n, 0x1.777a5cp-25f, std::fma(n, -0x1.921fb6p+0f, x)));
#else
  // pi/2 as the sum of constants of 33 and 53 bits
  const auto m = static_cast<double>(n);
  return static_cast<float>((static_cast<double>(x) - m * 0x1.921fb544p+0) - m * 0x1.0b4611a626331p-34);
#endif
}

// sin(x + quarter * pi/2), by minimax polynomials on [-pi/4, pi/4].
// Source: Moshier, Cephes Mathematical Library, 1989.
TT_HOST_DEVICE inline float sin_shifted(float x, uint32_t quarter) {
  const float t = x * 0.636619772f + Format<float>::kRound;
  const float r = subtract_quarters(x, t - Format<float>::kRound);
  const uint32_t q = std::bit_cast<uint32_t>(t) + quarter;  // the low bits of t hold n
  const float z = r * r;
  const float s = polynomial(z, -1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f) * z * r + r;
  const float c =
      polynomial(z, 2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f) * z * z +
      (1.0f - 0.5f * z);
  const float y = (q & 1) != 0 ? c : s;
  return (q & 2) != 0 ? -y : y;
}
// sin(|x|) with the sign of x, so that -0 stays -0.
TT_HOST_DEVICE inline float sin(float x) {
  const uint32_t sign = std::bit_cast<uint32_t>(x) & 0x80000000u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(sin_shifted(std::abs(x), 0)) ^ sign);
}
TT_HOST_DEVICE inline float cos(float x) { return sin_shifted(x, 1); }
TT_HOST_DEVICE inline double sin(double x) { return std::sin(x); }
TT_HOST_DEVICE inline double cos(double x) { return std::cos(x); }

}  // namespace tinytorch::inline TT_BUILD::math
