#include <doctest/doctest.h>

#include <random>
#include <tinytorch/core/simd_bytes.hpp>
#include <vector>

using namespace tinytorch;

TEST_CASE("dot products and sums of bytes are exact, at the extremes too") {
  std::mt19937 g(5);
  for (int round = 0; round < 200; ++round) {
    uint8_t a[32], s[32], two[16];
    int8_t b[256];
    for (auto& v : a) v = static_cast<uint8_t>(round == 0 ? 128 : g() % 129);
    for (auto& v : s) v = static_cast<uint8_t>(round == 0 ? 128 : g());
    for (auto& v : b) v = static_cast<int8_t>(round < 2 ? -127 : static_cast<int>(g() % 255) - 127);
    for (auto& v : two) v = static_cast<uint8_t>(g());
    const Ints8 plain = dot4(load_bytes(a), load_bytes(b)),
                with_sign = dot4_signed(load_bytes(s), load_bytes(b));
    const Ints8 sums = sums_of_32(b);
    const Bytes32 halves = nibbles(two);
    const Floats8 floats = bytes_to_floats(s);
    for (int i = 0; i < 8; ++i) {
      int x = 0, y = 0, z = 0;
      for (int k = 4 * i; k < 4 * i + 4; ++k) x += a[k] * b[k], y += static_cast<int8_t>(s[k]) * b[k];
      for (int k = 32 * i; k < 32 * i + 32; ++k) z += b[k];
      CHECK(plain[i] == x);
      CHECK(with_sign[i] == y);
      CHECK(sums[i] == z);
      CHECK(floats[i] == static_cast<float>(s[i]));
    }
    int8_t table[16];
    for (auto& v : table) v = static_cast<int8_t>(g());
    const Bytes32 found = look_up_bytes(table, halves);
    for (int i = 0; i < 32; ++i) CHECK(static_cast<int8_t>(found[i]) == table[halves[i]]);
    for (int i = 0; i < 16; ++i) {
      CHECK(int{halves[i]} == (two[i] & 15));
      CHECK(int{halves[i + 16]} == two[i] >> 4);
    }
  }
}

TEST_CASE("half-precision numbers at any address, and sums of lanes") {
  uint8_t bytes[3];
  for (const float x : {0.0f, 1.0f, -2.5f, 65504.0f, 6e-8f}) {
    store_half(bytes + 1, x);
    CHECK(load_half(bytes + 1) == f16_bits_to_float(float_to_f16_bits(x)));
  }
  CHECK(sum_of_floats(Floats8{1, 2, 4, 8, 16, 32, 64, 128}) == 255);
}
