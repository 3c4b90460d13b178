#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <support/fresh.hpp>
#include <tinytorch/backend/cpu/blocks/block_operands.hpp>
#include <vector>

using namespace tinytorch;
using namespace tinytorch::backend::cpu;

TEST_CASE(
    "activations of 8 bits: the largest magnitude of a group is 127, and the others are nearest codes") {
  static test::Fresh fresh;
  std::mt19937_64 g(fresh.next());
  std::student_t_distribution<double> heavy(3);
  for (const int64_t K : {0, 32, 96, 320}) {
    std::vector<float> x(static_cast<size_t>(K)), scale(x.size() / 32);
    std::vector<int8_t> code(x.size());
    std::vector<int32_t> sum(x.size() / 16);
    for (float& v : x) v = static_cast<float>(heavy(g));
    quantize_activations(x.data(), K, code.data(), scale.data(), sum.data());
    for (size_t i = 0; i < x.size(); ++i) {
      float largest = 0;
      for (size_t k = i / 32 * 32; k < i / 32 * 32 + 32; ++k) largest = std::max(largest, std::fabs(x[k]));
      CHECK(scale[i / 32] == largest / 127);
      CHECK(std::fabs(double{x[i]} - double{scale[i / 32]} * code[i]) <= 0.5001 * double{scale[i / 32]});
      int total = 0;
      for (size_t k = i / 16 * 16; k < i / 16 * 16 + 16; ++k) total += code[k];
      CHECK(sum[i / 16] == total);
    }
  }
}

TEST_CASE("a group of zeros has the scale 0, and a number that is not finite makes the scale NaN") {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (size_t at = 0; at < 32; ++at) {
      std::vector<float> x(64);
      std::vector<int8_t> code(64, 1);
      float scale[2];
      int32_t sum[4];
      x[at] = bad;
      quantize_activations(x.data(), 64, code.data(), scale, sum);
      CHECK(std::isnan(scale[0]));
      CHECK(scale[1] == 0);
      for (const int8_t c : code) CHECK(int{c} == 0);
      for (const int32_t s : sum) CHECK(s == 0);
    }
  }
}
