#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <support/fresh.hpp>
#include <tinytorch/backend/cpu/blocks/k_blocks.hpp>

using namespace tinytorch;
using namespace tinytorch::backend::cpu;

namespace {

std::mt19937_64 generator() {
  static test::Fresh fresh;
  return std::mt19937_64(fresh.next());
}
template <class F>
void check_errors(std::mt19937_64& g, float offset, double steps, int64_t group) {
  std::normal_distribution<float> normal(offset);
  float x[256], back[256];
  uint8_t block[F::kBytes];
  for (float& v : x) v = normal(g);
  F::pack(x, block), F::unpack(block, back);
  for (int64_t first = 0; first < 256; first += group) {
    double low = 0, high = 0, error = 0;
    for (int64_t i = first; i < first + group; ++i) {
      low = std::min(low, double{x[i]}), high = std::max(high, double{x[i]});
      error = std::max(error, std::fabs(double{x[i]} - double{back[i]}));
    }
    // Half a step for the codes, and as much for the numbers of few bits that the scales are.
    CHECK(error <= std::max(high, -low) * 0.08 + (high - low) / steps);
  }
}

}  // namespace

TEST_CASE("scales and offsets of 6 bits are read as they were written") {
  std::mt19937_64 g = generator();
  for (int round = 0; round < 500; ++round) {
    int s[8], m[8];
    for (int i = 0; i < 8; ++i) s[i] = static_cast<int>(g() % 64), m[i] = static_cast<int>(g() % 64);
    uint8_t packed[12], out[16];
    pack_q4_k_scales(s, m, packed), Q4_K::unpack_scales(packed, out);
    for (int i = 0; i < 8; ++i) CHECK((out[i] == s[i] && out[i + 8] == m[i]));
  }
}

TEST_CASE(
    "a fit has a smaller error than the least and the largest number as ends, and finds a planted line") {
  std::mt19937_64 g = generator();
  std::normal_distribution<float> normal;
  for (int round = 0; round < 100; ++round) {
    float x[32];
    for (float& v : x) v = normal(g);
    const auto error_of = [&](double scale, double offset) {
      double sum = 0;
      for (const float v : x) {
        const double code = std::clamp(std::round((double{v} - offset) / scale), 0.0, 15.0);
        sum += std::pow(double{v} - code * scale - offset, 2);
      }
      return sum;
    };
    const double low = std::min(0.0f, *std::min_element(x, x + 32)), high = *std::max_element(x, x + 32);
    const ScaleAndOffset fit = fit_scale_and_offset(x);
    CHECK(error_of(double{fit.scale}, double{fit.offset}) <= 1.0001 * error_of((high - low) / 15, low));
    for (int i = 0; i < 32; ++i) x[i] = 0.25f * static_cast<float>(i * 7 % 16) - 1.5f;
    const ScaleAndOffset exact = fit_scale_and_offset(x);
    CHECK(std::fabs(exact.scale - 0.25f) < 1e-6f);
    CHECK(std::fabs(exact.offset + 1.5f) < 1e-6f);
  }
  float x[16];
  for (int i = 0; i < 16; ++i) x[i] = 0.5f * static_cast<float>(i * 4 % 64 - 32);
  CHECK(std::fabs(fit_scale(x) - 0.5f) < 1e-6f);
}

TEST_CASE("no number is further from its code than the step allows, with and without an offset") {
  std::mt19937_64 g = generator();
  for (int round = 0; round < 50; ++round) {
    for (const float offset : {0.0f, 3.0f, -3.0f}) {
      check_errors<Q4_K>(g, offset, 15, 32);
      check_errors<Q6_K>(g, offset, 20, 16);
    }
  }
}
