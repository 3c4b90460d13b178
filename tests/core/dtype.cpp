// Element types: sizes and names, and the 16-bit conversions over every bit pattern, against reference models
// that follow the definitions of the formats.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <tinytorch/core/dtype.hpp>
#include <tinytorch/core/random.hpp>

namespace tt = tinytorch;

namespace {

// The value of a bit pattern in a binary format with `fraction` fraction bits and `exponent` exponent bits.
double value_of(uint32_t bits, int fraction, int exponent) {
  const uint32_t mask = (1u << exponent) - 1;
  const uint32_t e = (bits >> fraction) & mask, f = bits & ((1u << fraction) - 1);
  const int bias = (1 << (exponent - 1)) - 1;
  double v = e == 0 ? std::ldexp(f, 1 - bias - fraction)
                    : std::ldexp(1 + std::ldexp(f, -fraction), static_cast<int>(e) - bias);
  if (e == mask) v = f == 0 ? INFINITY : NAN;
  return (bits >> (fraction + exponent)) & 1 ? -v : v;
}

// Rounds to nearest, ties to even, by a search for the bit pattern with the nearest value.
uint32_t nearest_pattern(double x, int fraction, int exponent) {
  const uint32_t sign = std::signbit(x) ? 1u << (fraction + exponent) : 0;
  const double a = std::abs(x);
  const uint32_t infinity = ((1u << exponent) - 1) << fraction;
  uint32_t low = 0, high = infinity;  // the largest pattern whose value is at most a
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (value_of(middle, fraction, exponent) <= a ? low : high) = middle;
  }
  if (std::isinf(a)) return sign | infinity;
  const double below = value_of(low, fraction, exponent);
  const double step = low + 1 == infinity ? below - value_of(low - 1, fraction, exponent)
                                          : value_of(low + 1, fraction, exponent) - below;
  const double rest = a - below;  // exact, because both are close
  const bool up = rest > step / 2 || (rest == step / 2 && (low & 1));
  return sign | (low + (up ? 1 : 0));
}

float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }

}  // namespace

TEST_CASE("sizes, names and kinds agree with the C++ types") {
  int count = 0;
  for (int i = 0; i < tt::kDTypeCount; ++i) {
    const auto t = static_cast<tt::DType>(i);
    tt::dispatch(t, [&]<class T>(T*) {
      CHECK(tt::dtype_of<T> == t);
      CHECK(tt::size_of(t) == sizeof(T));
      CHECK(tt::is_integral(t) == (std::is_integral_v<T> && !std::is_same_v<T, bool>));
      ++count;
    });
    CHECK(tt::is_floating(t) == (tt::epsilon_of(t) > 0));
  }
  CHECK(count == 9);
  CHECK(std::string(tt::name_of(tt::bf16)) == "bf16");
  CHECK(std::string(tt::name_of(tt::boolean)) == "bool");
  CHECK(tt::epsilon_of(tt::f32) == std::numeric_limits<float>::epsilon());
  CHECK(tt::epsilon_of(tt::f64) == std::numeric_limits<double>::epsilon());
  CHECK(tt::epsilon_of(tt::bf16) == value_of(0x3f81, 7, 8) - 1);
  CHECK(tt::epsilon_of(tt::f16) == value_of(0x3c01, 10, 5) - 1);
  CHECK_THROWS_AS(tt::dispatch(static_cast<tt::DType>(99), []<class T>(T*) {}), tt::Error);
}

TEST_CASE("all 65,536 bit patterns of bf16 and f16 are unchanged by a conversion to float and back") {
  int wrong = 0;
  for (uint32_t i = 0; i < 65536; ++i) {
    tt::Half h;
    h.bits = static_cast<uint16_t>(i);
    tt::BFloat16 b;
    b.bits = static_cast<uint16_t>(i);
    const float from_half = static_cast<float>(h), from_bf16 = static_cast<float>(b);
    const double half = value_of(i, 10, 5), brain = value_of(i, 7, 8);
    if (std::isnan(half)) {
      wrong += !std::isnan(from_half) || std::signbit(from_half) != (i >> 15);
      const tt::Half back(from_half);
      wrong += back.bits != (i | 0x0200u);  // the NaN becomes quiet and keeps payload and sign
    } else {
      wrong += static_cast<double>(from_half) != half || tt::Half(from_half).bits != i;
      wrong += tt::Half(half).bits != i || static_cast<double>(h) != half;
    }
    if (std::isnan(brain)) {
      wrong += !std::isnan(from_bf16) || std::signbit(from_bf16) != (i >> 15);
      wrong += tt::BFloat16(from_bf16).bits != (i | 0x0040u);
    } else {
      wrong += static_cast<double>(from_bf16) != brain || tt::BFloat16(from_bf16).bits != i;
      wrong += tt::BFloat16(brain).bits != i || static_cast<double>(b) != brain;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("halfway values round to even, and values next to them round to nearest") {
  int wrong = 0;
  for (const int fraction : {10, 7}) {
    const int exponent = 15 - fraction;
    const uint32_t infinity = ((1u << exponent) - 1) << fraction;
    const auto round = [&](double x) -> uint32_t {
      return fraction == 10 ? tt::Half(x).bits : tt::BFloat16(x).bits;
    };
    const auto round_float = [&](float x) -> uint32_t {
      return fraction == 10 ? tt::Half(x).bits : tt::BFloat16(x).bits;
    };
    for (uint32_t i = 0; i + 1 < infinity; ++i) {
      const double low = value_of(i, fraction, exponent), high = value_of(i + 1, fraction, exponent);
      const double middle = low + (high - low) / 2;
      wrong += round(middle) != (i & 1 ? i + 1 : i);
      wrong += round(std::nextafter(middle, 0)) != i;  // rounding twice would see a tie here
      wrong += round(std::nextafter(middle, INFINITY)) != i + 1;
      wrong += round(-middle) != ((i & 1 ? i + 1 : i) | 0x8000u);
      wrong += round_float(static_cast<float>(middle)) != (i & 1 ? i + 1 : i);
      wrong += round_float(std::nextafter(static_cast<float>(middle), 0.0f)) != i;
      wrong += round_float(std::nextafter(static_cast<float>(middle), INFINITY)) != i + 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a dense sample of floats rounds as the reference search does") {
  int wrong = 0;
  for (uint64_t bits = 0; bits < 0x1'0000'0000; bits += 65521) {
    const float x = float_of(static_cast<uint32_t>(bits));
    if (std::isnan(x)) continue;
    wrong += tt::Half(x).bits != nearest_pattern(x, 10, 5);
    wrong += tt::BFloat16(x).bits != nearest_pattern(x, 7, 8);
  }
  CHECK(wrong == 0);
#ifdef __FLT16_MANT_DIG__
  tt::Generator g(3);
  for (int i = 0; i < 2'000'000; ++i) {
    const float x = float_of(static_cast<uint32_t>(g.below(uint64_t{1} << 32)));
    if (std::isnan(x)) continue;
    const _Float16 compiler = static_cast<_Float16>(x);
    uint16_t expected;
    std::memcpy(&expected, &compiler, 2);
    wrong += tt::Half(x).bits != expected;
  }
  CHECK(wrong == 0);
#endif
}

TEST_CASE("a conversion from double rounds once") {
  tt::Generator g(4);
  int wrong = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double x = std::ldexp(g.uniform(-1, 1), static_cast<int>(g.below(300)) - 160);
    wrong += tt::Half(x).bits != nearest_pattern(x, 10, 5);
    wrong += tt::BFloat16(x).bits != nearest_pattern(x, 7, 8);
  }
  CHECK(wrong == 0);
  // Through float, 1 + 2^-8 + 2^-40 would become the tie 1 + 2^-8, which rounds down to 1.
  CHECK(tt::BFloat16(1 + 0x1p-8 + 0x1p-40).bits == 0x3f81);
  CHECK(tt::BFloat16(static_cast<float>(1 + 0x1p-8 + 0x1p-40)).bits == 0x3f80);
  CHECK(tt::Half(1 + 0x1p-11 + 0x1p-40).bits == 0x3c01);
}

TEST_CASE("conversions at the ends of the ranges") {
  CHECK(tt::Half(65504.0f).bits == 0x7bff);
  CHECK(tt::Half(65519.996f).bits == 0x7bff);
  CHECK(tt::Half(65520.0f).bits == 0x7c00);
  CHECK(tt::Half(-1e30f).bits == 0xfc00);
  CHECK(tt::Half(0x1p-24f).bits == 1);
  CHECK(tt::Half(0x1p-25f).bits == 0);
  CHECK(tt::Half(-0.0f).bits == 0x8000);
  CHECK(tt::BFloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(tt::BFloat16(1e300).bits == 0x7f80);
  CHECK(tt::BFloat16(-INFINITY).bits == 0xff80);
  CHECK(tt::BFloat16(-0.0f).bits == 0x8000);
}
