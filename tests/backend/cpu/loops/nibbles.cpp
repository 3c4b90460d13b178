#include <doctest/doctest.h>

#include <tinytorch/backend/cpu/loops/nibbles.hpp>

using namespace tinytorch;

TEST_CASE("every byte is two numbers from -8 to 7") {
  for (int byte = 0; byte < 256; ++byte) {
    const Simd<int32_t> bytes = Simd<int32_t>{} + byte;
    const Simd<float> low = backend::cpu::low_nibbles(bytes), high = backend::cpu::high_nibbles(bytes);
    for (int i = 0; i < kLanes<float>; ++i) {
      CHECK(low[i] == static_cast<float>(byte % 16 - 8));
      CHECK(high[i] == static_cast<float>(byte / 16 - 8));
    }
  }
}
