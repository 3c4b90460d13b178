// Widening loads of every byte, signed and unsigned, from any address; table lookup by the low four bits.
#include <doctest/doctest.h>

#include <tinytorch/core/simd_widen.hpp>

namespace tt = tinytorch;

TEST_CASE_TEMPLATE("widening keeps the value of every byte", S, int8_t, uint8_t) {
  S bytes[256 + tt::kLanes<int32_t>];
  for (int64_t i = 0; i < 256 + tt::kLanes<int32_t>; ++i) bytes[i] = static_cast<S>(i);
  for (int64_t first = 0; first <= 256; ++first) {
    const tt::Simd<int32_t> wide = tt::widen_bytes(bytes + first);
    for (int64_t i = 0; i < tt::kLanes<int32_t>; ++i) CHECK(wide[i] == int32_t{static_cast<S>(first + i)});
  }
}

TEST_CASE("a table lookup uses only the low four bits") {
  float table[16];
  for (int i = 0; i < 16; ++i) table[i] = static_cast<float>(100 - i * i);
  for (int32_t first : {0, 16, 240, -1000, 1 << 30}) {
    tt::Simd<int32_t> n{};
    for (int32_t lane = 0; lane < tt::kLanes<int32_t>; ++lane) n[lane] = first + 5 * lane;
    const tt::Simd<float> found = tt::look_up(table, n);
    for (int64_t lane = 0; lane < tt::kLanes<int32_t>; ++lane) CHECK(found[lane] == table[n[lane] & 15]);
  }
}
