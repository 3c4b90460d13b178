#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <support/fresh.hpp>
#include <tinytorch/backend/cpu/blocks/simple_blocks.hpp>

using namespace tinytorch;
using namespace tinytorch::backend::cpu;

TEST_CASE("Q8_1 has the codes and the scale of Q8_0, and their sum") {
  static test::Fresh fresh;
  std::mt19937_64 g(fresh.next());
  std::normal_distribution<float> normal;
  for (int round = 0; round < 100; ++round) {
    float x[32], largest = 0;
    for (float& v : x) v = normal(g), largest = std::max(largest, std::fabs(v));
    uint8_t a[34], b[36];
    Q8_0::pack(x, a), Q8_1::pack(x, b);
    CHECK(std::memcmp(a, b, 2) == 0);
    CHECK(std::memcmp(a + 2, b + 4, 32) == 0);
    double sum = 0;
    for (int i = 2; i < 34; ++i) sum += static_cast<int8_t>(a[i]);
    const double want = sum * double{largest} / 127;
    CHECK(std::fabs(double{load_half(b + 2)} - want) <= std::fabs(want) / 2000 + 1e-7);
  }
}
