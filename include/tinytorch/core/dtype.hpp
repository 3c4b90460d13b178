// Element types f32 f64 bf16 f16 i8 u8 i32 i64 bool, and the two 16-bit floats implemented in software.
//
// BFloat16 keeps the upper 16 bits of a float; Half is IEEE binary16. Conversions round to nearest, ties to
// even, keep infinities, and turn every NaN into a quiet NaN of the same sign. A double is first rounded to
// odd in float, so that the result is rounded only once.
// Source: Boldo and Melquiond, "When double rounding is odd", 2005.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tinytorch/core/error.hpp>

namespace tinytorch::inline TT_BUILD {

enum class DType : uint8_t { f32, f64, bf16, f16, i8, u8, i32, i64, boolean };
inline constexpr int kDTypeCount = 9;

inline constexpr DType f32 = DType::f32, f64 = DType::f64, bf16 = DType::bf16, f16 = DType::f16;
inline constexpr DType i8 = DType::i8, u8 = DType::u8, i32 = DType::i32, i64 = DType::i64;
inline constexpr DType boolean = DType::boolean;

constexpr size_t size_of(DType t) {
  constexpr size_t kBytes[kDTypeCount] = {4, 8, 2, 2, 1, 1, 4, 8, 1};
  return kBytes[static_cast<size_t>(t)];
}
constexpr const char* name_of(DType t) {
  constexpr const char* kNames[kDTypeCount] = {"f32", "f64", "bf16", "f16", "i8", "u8", "i32", "i64", "bool"};
  return kNames[static_cast<size_t>(t)];
}
constexpr bool is_floating(DType t) { return t <= DType::f16; }
constexpr bool is_16_bit(DType t) { return t == DType::bf16 || t == DType::f16; }
constexpr bool is_integral(DType t) { return t >= DType::i8 && t <= DType::i64; }

// Rounds to odd: every inexact result has 1 as its last bit, so that rounding it later to fewer bits gives
// the same as rounding x directly.
TT_HOST_DEVICE inline float to_float_round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || nearest != nearest) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const bool away = (x > 0) == (static_cast<double>(nearest) > x);  // |nearest| > |x|: step back to truncate
  if (away) --bits;
  return std::bit_cast<float>(bits | 1u);
}

constexpr uint16_t float_to_bf16_bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const uint32_t quiet_nan = bits | 0x00400000u;
  // The choice is made between floats: between 16-bit integers, g++ would pack the vectors three times
  // instead of once.
  const float chosen = std::bit_cast<float>(x != x ? quiet_nan : rounded);
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(chosen) >> 16);
}
constexpr float bf16_bits_to_float(uint16_t h) {
  return std::bit_cast<float>(static_cast<uint32_t>(h) << 16);
}

// Branch-free, so that loops over it vectorize. A normal result is rounded in integer arithmetic; for a
// subnormal result, the float addition of 0.5 does the shift and the rounding.
constexpr uint16_t float_to_f16_bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude < 0x38800000u ? magnitude : 0u) + 0.5f) -
      0x3f000000u;
  uint32_t half = magnitude < 0x38800000u ? subnormal : normal;  // 2^-14: smallest normal half
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;              // 65520 and above round to infinity
  half = magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : half;
  return static_cast<uint16_t>(sign | half);
}
constexpr float f16_bits_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t magnitude = h & 0x7fffu;
  const uint32_t normal = (magnitude << 13) + 0x38000000u;
  const uint32_t special = (magnitude << 13) + 0x70000000u;  // exponent 31 becomes 255
  const float tiny = static_cast<float>(magnitude) * 0x1p-24f;
  uint32_t bits = magnitude < 0x400u ? std::bit_cast<uint32_t>(tiny) : normal;
  bits = magnitude >= 0x7c00u ? special : bits;
  bits |= magnitude > 0x7c00u ? 0x00400000u : 0u;  // a NaN becomes a quiet NaN
  return std::bit_cast<float>(sign | bits);
}

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  constexpr explicit BFloat16(float x) : bits(float_to_bf16_bits(x)) {}
  TT_HOST_DEVICE explicit BFloat16(double x) : bits(float_to_bf16_bits(to_float_round_to_odd(x))) {}
  constexpr explicit operator float() const { return bf16_bits_to_float(bits); }
  constexpr explicit operator double() const { return static_cast<double>(bf16_bits_to_float(bits)); }
};

struct Half {
  uint16_t bits = 0;
  Half() = default;
  constexpr explicit Half(float x) : bits(float_to_f16_bits(x)) {}
  TT_HOST_DEVICE explicit Half(double x) : bits(float_to_f16_bits(to_float_round_to_odd(x))) {}
  constexpr explicit operator float() const { return f16_bits_to_float(bits); }
  constexpr explicit operator double() const { return static_cast<double>(f16_bits_to_float(bits)); }
};

// The DType of a C++ element type. dispatch() below goes from a DType to the C++ type.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

// Converts one value to another type, for every cast, item() and to_vector(). Float to integer truncates the
// fraction, saturates outside the range, and turns NaN into 0; integer to a narrower integer wraps; any type
// to bool tests x != 0. An integer never passes through a float.
template <class To, class From>
TT_HOST_DEVICE inline To convert(From x) {
  constexpr bool kFrom16 = std::is_same_v<From, BFloat16> || std::is_same_v<From, Half>;
  constexpr bool kTo16 = std::is_same_v<To, BFloat16> || std::is_same_v<To, Half>;
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kFrom16) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (kTo16) {
    if constexpr (std::is_same_v<From, float>) return To(x);
    return To(static_cast<double>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From kHigh =
        static_cast<From>(std::numeric_limits<To>::max());  // may have been rounded up, hence >= below
    if (x >= kHigh) return std::numeric_limits<To>::max();
    return x > kLow ? static_cast<To>(x) : (x == x ? std::numeric_limits<To>::min() : To(0));
  } else {
    return static_cast<To>(x);
  }
}

// Calls f with a null pointer of the element type: dispatch(t, [&]<class T>(T*) { ... }).
template <class F>
decltype(auto) dispatch(DType t, F&& f) {
  switch (t) {
    case DType::f32:
      return f(static_cast<float*>(nullptr));
    case DType::f64:
      return f(static_cast<double*>(nullptr));
    case DType::bf16:
      return f(static_cast<BFloat16*>(nullptr));
    case DType::f16:
      return f(static_cast<Half*>(nullptr));
    case DType::i8:
      return f(static_cast<int8_t*>(nullptr));
    case DType::u8:
      return f(static_cast<uint8_t*>(nullptr));
    case DType::i32:
      return f(static_cast<int32_t*>(nullptr));
    case DType::i64:
      return f(static_cast<int64_t*>(nullptr));
    case DType::boolean:
      return f(static_cast<bool*>(nullptr));
  }
  fail("TT-DTYPE-00", "unknown dtype");
}

// Machine epsilon of the stored type, which is the distance from 1 to the next value; 0 for integers.
constexpr double epsilon_of(DType t) {
  constexpr double kEps[kDTypeCount] = {0x1p-23, 0x1p-52, 0x1p-7, 0x1p-10, 0, 0, 0, 0, 0};
  return kEps[static_cast<size_t>(t)];
}

}  // namespace tinytorch::inline TT_BUILD
