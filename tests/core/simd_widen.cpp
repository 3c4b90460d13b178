// Every byte, signed and unsigned, from any address.
#include <doctest/doctest.h>

#include <tinytorch/core/simd_widen.hpp>

namespace tt = tinytorch;

TEST_CASE_TEMPLATE("all bytes keep their values", S, int8_t, uint8_t) {
  S bytes[256 + tt::kLanes<int32_t>];
  for (int64_t i = 0; i < 256 + tt::kLanes<int32_t>; ++i) bytes[i] = static_cast<S>(i);
  for (int64_t first = 0; first <= 256; ++first) {
    const tt::Simd<int32_t> wide = tt::widen_bytes(bytes + first);
    for (int64_t i = 0; i < tt::kLanes<int32_t>; ++i) CHECK(wide[i] == int32_t{static_cast<S>(first + i)});
  }
}
