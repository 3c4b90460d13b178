#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <tinytorch/core/simd_bytes.hpp>
#include <vector>

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors of 32 bytes, on processors without AVX
using namespace tinytorch;

TEST_CASE("dot products of bytes are exact, at the extremes too") {
  std::mt19937 g(5);
  for (int round = 0; round < 200; ++round) {
    uint8_t a[32], s[32], two[16];
    int8_t b[32];
    for (auto& v : a) v = static_cast<uint8_t>(round == 0 ? 128 : g() % 129);
    for (auto& v : s) v = static_cast<uint8_t>(round == 0 ? 128 : g());
    for (auto& v : b) v = static_cast<int8_t>(round < 2 ? -127 : static_cast<int>(g() % 255) - 127);
    for (auto& v : two) v = static_cast<uint8_t>(g());
    const Ints8 plain = dot4(load_bytes(a), load_bytes(b)),
                with_sign = dot4_signed(load_bytes(s), load_bytes(b));
    const Bytes32 halves = nibbles(two);
    const Floats8 floats = bytes_to_floats(s);
    for (int i = 0; i < 8; ++i) {
      int x = 0, y = 0;
      for (int k = 4 * i; k < 4 * i + 4; ++k) x += a[k] * b[k], y += static_cast<int8_t>(s[k]) * b[k];
      CHECK(plain[i] == x);
      CHECK(with_sign[i] == y);
      CHECK(floats[i] == static_cast<float>(s[i]));
    }
    const Floats8 with_signs = bytes_to_floats(b);
    for (int i = 0; i < 8; ++i) CHECK(with_signs[i] == static_cast<float>(b[i]));
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

namespace {
// dot_words of random codes up to kLargest, and at the extremes.
template <int64_t kCount, int kLargest>
void check_dot_words(std::mt19937& g) {
  for (int round = 0; round < 20; ++round) {
    Bytes32 code[kCount];
    int8_t x[4 * kCount];
    for (Bytes32& v : code)
      for (int i = 0; i < 32; ++i) v[i] = static_cast<uint8_t>(round < 2 ? kLargest : g() % (kLargest + 1));
    for (auto& v : x)
      v = static_cast<int8_t>(round < 2 ? (round == 0 ? 127 : -127) : static_cast<int>(g() % 255) - 127);
    const Ints8 sums = dot_words<kCount, kLargest>(code, x);
    for (int r = 0; r < 8; ++r) {
      int exact = 0;
      for (int64_t c = 0; c < kCount; ++c)
        for (int k = 0; k < 4; ++k) exact += code[c][4 * r + k] * x[4 * c + k];
      CHECK(sums[r] == exact);
    }
  }
}
}  // namespace

TEST_CASE("dot products of eight rows are exact for any largest code") {
  std::mt19937 g(6);
  check_dot_words<8, 1>(g), check_dot_words<8, 15>(g), check_dot_words<8, 16>(g), check_dot_words<8, 24>(g);
  check_dot_words<4, 63>(g), check_dot_words<8, 63>(g), check_dot_words<3, 128>(g), check_dot_words<1, 15>(g);
}

TEST_CASE("bytes of eight rows are transposed by words, and gathered as words and halves") {
  std::mt19937 g(7);
  uint8_t bytes[8][40];
  RowPointers row;
  for (int r = 0; r < 8; ++r) {
    for (auto& b : bytes[r]) b = static_cast<uint8_t>(g());
    bytes[r][8] = static_cast<uint8_t>(bytes[r][8] & 0x7b);  // a finite f16 in bytes 7 and 8
    row[r] = bytes[r];
  }
  for (const int64_t offset : {0, 1, 24}) {
    Bytes32 words[4];
    transpose_16_bytes(row, offset, words);
    for (int c = 0; c < 4; ++c)
      for (int i = 0; i < 32; ++i) CHECK(int{words[c][i]} == int{bytes[i / 4][offset + 4 * c + i % 4]});
    const Ints8 gathered = gather_words(row, offset);
    for (int r = 0; r < 8; ++r) {
      const auto word = gathered[r];
      CHECK(std::memcmp(bytes[r] + offset, &word, 4) == 0);
    }
  }
  const Floats8 halves = gather_halves(row, 7);
  for (int r = 0; r < 8; ++r) CHECK(halves[r] == load_half(bytes[r] + 7));
}
