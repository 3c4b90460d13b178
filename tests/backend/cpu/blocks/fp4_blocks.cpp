#include <doctest/doctest.h>

#include <cmath>
#include <tinytorch/backend/cpu/blocks/fp4_blocks.hpp>

using namespace tinytorch;
using namespace tinytorch::backend::cpu;

TEST_CASE("numbers that the formats have are kept exactly, at every scale") {
  constexpr float kE2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int e = -120; e <= 120; ++e) {
    float x[64], back[64];
    for (int i = 0; i < 64; ++i) x[i] = std::ldexp(kE2m1[i * 3 % 8], e) * (i % 5 < 2 ? -1.0f : 1.0f);
    uint8_t block[MXFP4::kBytes];
    MXFP4::pack(x, block), MXFP4::unpack(block, back);
    for (int i = 0; i < 32; ++i) CHECK(back[i] == x[i]);
    if (e < -9 || e > 8) continue;
    uint8_t four[NVFP4::kBytes];
    NVFP4::pack(x, four), NVFP4::unpack(four, back);
    for (int i = 0; i < 64; ++i) CHECK(back[i] == x[i]);
  }
}

TEST_CASE("scales beyond those of NVFP4 stop at its largest, and numbers at the largest code") {
  float x[64], back[64];
  for (float& v : x) v = 1e6f;
  uint8_t block[NVFP4::kBytes];
  NVFP4::pack(x, block), NVFP4::unpack(block, back);
  for (const float v : back) CHECK(v == 448 * 6);
}
