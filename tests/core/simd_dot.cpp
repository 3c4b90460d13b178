// dot4 and dot2_words against plain loops, at the ends of their ranges and where a sum wraps; dot2 against
// sums in double.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <tinytorch/core/dtype.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/core/simd_dot.hpp>

namespace tt = tinytorch;

TEST_CASE("dot4 adds four products of bytes per lane") {
  tt::Generator g(7);
  const auto byte = [&g](int round) {
    const auto value = static_cast<uint8_t>(g.uniform(0, 256));
    return round == 0 ? uint8_t{255} : round == 1 ? uint8_t{128} : value;
  };
  constexpr int64_t kBytes = tt::kSimdBytes;
  for (int round = 0; round < 50; ++round) {
    uint8_t a[kBytes], b[kBytes];
    int32_t sum[tt::kLanes<int32_t>], expected[tt::kLanes<int32_t>];
    for (int64_t i = 0; i < kBytes; ++i) a[i] = byte(round), b[i] = byte(round == 0 ? 1 : round);
    for (int64_t i = 0; i < tt::kLanes<int32_t>; ++i) {
      sum[i] = round % 2 == 0 ? INT32_MAX - 3 : static_cast<int32_t>(g.uniform(-1e9, 1e9));
      auto total = static_cast<uint32_t>(sum[i]);
      for (int64_t k = 4 * i; k < 4 * i + 4; ++k)
        total += static_cast<uint32_t>(int32_t{a[k]} * int32_t{static_cast<int8_t>(b[k])});
      expected[i] = static_cast<int32_t>(total);
    }
    int32_t x[tt::kLanes<int32_t>], y[tt::kLanes<int32_t>], got[tt::kLanes<int32_t>];
    std::memcpy(x, a, sizeof x);
    std::memcpy(y, b, sizeof y);
    tt::simd_store(got, tt::dot4(tt::simd_load(sum), tt::simd_load(x), tt::simd_load(y)));
    for (int64_t i = 0; i < tt::kLanes<int32_t>; ++i) CHECK(got[i] == expected[i]);
  }
}

TEST_CASE("dot2_words adds two products of 16-bit integers per lane") {
  tt::Generator g(8);
  constexpr int64_t kL = tt::kLanes<int32_t>;
  for (int round = 0; round < 50; ++round) {
    int16_t a[2 * kL], b[2 * kL];
    int32_t sum[kL], got[kL], x[kL], y[kL];
    for (int64_t i = 0; i < 2 * kL; ++i) {
      a[i] = static_cast<int16_t>(round == 0 ? -32768 : std::floor(g.uniform(-32768, 32768)));
      b[i] = static_cast<int16_t>(round == 0 ? 32767 : std::floor(g.uniform(-32768, 32768)));
    }
    for (int32_t& s : sum) s = round == 1 ? INT32_MIN : static_cast<int32_t>(g.uniform(-1e9, 1e9));
    std::memcpy(x, a, sizeof x);
    std::memcpy(y, b, sizeof y);
    tt::simd_store(got, tt::dot2_words(tt::simd_load(sum), tt::simd_load(x), tt::simd_load(y)));
    for (int64_t i = 0; i < kL; ++i) {
      const int64_t exact =
          int64_t{sum[i]} + int64_t{a[2 * i]} * b[2 * i] + int64_t{a[2 * i + 1]} * b[2 * i + 1];
      CHECK(got[i] == static_cast<int32_t>(exact));
    }
  }
}

namespace {

struct PairCase {
  float sum;
  float a[2], b[2];
};

// dot2 with the same operands in every lane.
float dot2_of(const PairCase& c) {
  const auto lanes = [](const float(&x)[2]) {
    const uint32_t word = uint32_t{tt::BFloat16(x[0]).bits} | uint32_t{tt::BFloat16(x[1]).bits} << 16;
    return tt::simd_broadcast(static_cast<int32_t>(word));
  };
  const tt::Simd<float> out = tt::dot2(tt::simd_broadcast(c.sum), lanes(c.a), lanes(c.b));
  for (int64_t i = 1; i < tt::kLanes<float>; ++i)
    CHECK((out[static_cast<int>(i)] == out[0] || std::isnan(out[0])));
  return out[0];
}

}  // namespace

TEST_CASE("dot2 adds two products of bf16 per lane") {
  tt::Generator g(8);
  for (int round = 0; round < 500; ++round) {
    PairCase c{static_cast<float>(g.uniform(-4, 4)), {}, {}};
    double exact = c.sum, size = std::abs(c.sum);
    for (int p = 0; p < 2; ++p) {
      const double scale = std::exp2(g.uniform(-20, 20));
      c.a[p] = static_cast<float>(tt::BFloat16(g.uniform(-1, 1) * scale));
      c.b[p] = static_cast<float>(tt::BFloat16(g.uniform(-1, 1)));
      exact += double{c.a[p]} * c.b[p];
      size += std::abs(double{c.a[p]} * c.b[p]);
    }
    CHECK(std::abs(dot2_of(c) - exact) <= 1.5e-7 * size);
  }
}

TEST_CASE("dot2 propagates infinities and NaN") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  CHECK(dot2_of({1, {kInf, 2}, {3, 4}}) == kInf);
  CHECK(dot2_of({1, {2, -kInf}, {3, 4}}) == -kInf);
  CHECK(std::isnan(dot2_of({1, {kInf, 2}, {0, 4}})));
  CHECK(std::isnan(dot2_of({1, {2, 3}, {4, NAN}})));
  CHECK(std::isnan(dot2_of({NAN, {2, 3}, {4, 5}})));
}

TEST_CASE("the lanes of dot2 are independent") {
  constexpr int64_t kL = tt::kLanes<float>;
  uint16_t a[2 * kL], b[2 * kL];
  float sum[kL], got[kL];
  for (int64_t i = 0; i < 2 * kL; ++i) {
    a[i] = tt::BFloat16(static_cast<float>(i + 1)).bits;
    b[i] = tt::BFloat16(static_cast<float>(3 - i)).bits;
  }
  for (int64_t i = 0; i < kL; ++i) sum[i] = static_cast<float>(100 * i);
  int32_t x[kL], y[kL];
  std::memcpy(x, a, sizeof x);
  std::memcpy(y, b, sizeof y);
  tt::simd_store(got, tt::dot2(tt::simd_load(sum), tt::simd_load(x), tt::simd_load(y)));
  for (int64_t i = 0; i < kL; ++i) {
    const int64_t even = (2 * i + 1) * (3 - 2 * i), odd = (2 * i + 2) * (2 - 2 * i);
    CHECK(got[i] == static_cast<float>(100 * i + even + odd));
  }
}
