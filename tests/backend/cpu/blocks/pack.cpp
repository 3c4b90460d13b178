#include <tinytorch/backend/cpu/blocks/pack.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <support/fresh.hpp>
#include <tinytorch/backend/cpu/blocks/k_blocks.hpp>
#include <tinytorch/backend/cpu/blocks/simple_blocks.hpp>

using namespace tinytorch;
using namespace tinytorch::backend::cpu;

namespace {

std::mt19937_64 generator() {
  static test::Fresh fresh;
  return std::mt19937_64(fresh.next());
}

}  // namespace

TEST_CASE("scales and offsets of 6 bits come back, and the products of Q4_K read the same ones") {
  std::mt19937_64 g = generator();
  for (int round = 0; round < 100; ++round) {
    int s[8], m[8], s_back[8], m_back[8];
    for (int k = 0; k < 8; ++k) s[k] = static_cast<int>(g() % 64), m[k] = static_cast<int>(g() % 64);
    uint8_t packed[12], both[16];
    pack_q4_k_scales(s, m, packed);
    unpack_q4_k_scales(packed, s_back, m_back);
    Q4_K::unpack_scales(packed, both);
    for (int k = 0; k < 8; ++k) {
      CHECK(s_back[k] == s[k]);
      CHECK(m_back[k] == m[k]);
      CHECK(both[k] == s[k]);
      CHECK(both[k + 8] == m[k]);
    }
  }
}

TEST_CASE("a number is off by half a code, and by the rounding of its scale, at most") {
  std::mt19937_64 g = generator();
  std::normal_distribution<float> normal;
  for (int round = 0; round < 200; ++round) {
    float x[32], y8[32], y4[32], extreme = 0;
    for (float& v : x) v = normal(g), extreme = std::max(extreme, std::fabs(v));
    uint8_t q8[34], q4[18];
    pack_q8_0(x, q8), unpack_int8_codes(q8, 2, y8);
    pack_q4_0(x, q4), unpack_q4_0(q4, y4);
    for (int i = 0; i < 32; ++i) {
      CHECK(std::fabs(x[i] - y8[i]) <= extreme * (0.501f / 127 + 0x1p-11f));
      // The code 16 does not exist, so that numbers near -extreme are off by up to a whole code.
      CHECK(std::fabs(x[i] - y4[i]) <= extreme * (1.001f / 8 + 0x1p-11f));
    }
  }
}

TEST_CASE("the best scale and offset of a group are better than the smallest and the largest number") {
  std::mt19937_64 g = generator();
  std::student_t_distribution<double> heavy(5);
  double fitted = 0, plain = 0;
  for (int round = 0; round < 100; ++round) {
    float x[32], least = 0, largest = 0;
    for (float& v : x) {
      v = static_cast<float>(heavy(g));
      least = std::min(least, v), largest = std::max(largest, v);
    }
    const ScaleAndOffset fit = fit_scale_and_offset(x);
    CHECK(fit.offset <= 0);
    const auto error = [&](double scale, double offset) {
      double sum = 0;
      for (const float v : x) {
        const double code = std::clamp(std::nearbyint((double{v} - offset) / scale), 0.0, 15.0);
        sum += std::pow(double{v} - scale * code - offset, 2);
      }
      return sum;
    };
    fitted += error(double{fit.scale}, double{fit.offset});
    plain += error((double{largest} - double{least}) / 15, double{least});
  }
  CHECK(fitted < plain);
}

TEST_CASE("random bytes are decoded by loops and by vectors to the same bits") {
  std::mt19937_64 g = generator();
  for (int round = 0; round < 50; ++round) {
    uint8_t block[144];
    for (uint8_t& byte : block) byte = static_cast<uint8_t>(g());
    for (const int at : {1, 3}) block[at] &= 0x3f;  // scales that are numbers
    float one[256], other[256];
    const auto same = [&](size_t n) { return std::memcmp(one, other, n * sizeof(float)) == 0; };
    unpack_int8_codes(block, 2, one), Q8_0::unpack(block, other);
    CHECK(same(32));
    unpack_int8_codes(block, 4, one), Q8_1::unpack(block, other);
    CHECK(same(32));
    unpack_q4_0(block, one), Q4_0::unpack(block, other);
    CHECK(same(32));
    unpack_q4_k(block, one), Q4_K::unpack(block, other);
    CHECK(same(256));
  }
}
