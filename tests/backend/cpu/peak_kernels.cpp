// The kernels that measure peaks are compared with plain loops in double.
#include <tinytorch/backend/cpu/peak_kernels.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;
using tt::backend::View;

namespace {

constexpr int64_t kSizes[] = {0, 1, 3, 15, 16, 17, 79, 80, 81, 159, 160, 161, 1009, 16384, 50021};

std::vector<float> values(int64_t n, uint64_t seed) {
  tt::Generator generator(seed);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = static_cast<float>(generator.uniform(-4, 4));
  return x;
}
View view(std::vector<float>& x) { return {x.data(), tt::f32, {static_cast<int64_t>(x.size())}, {1}}; }

}  // namespace

TEST_CASE("triad equals a loop at every size") {
  for (const int64_t n : kSizes) {
    CAPTURE(n);
    std::vector<float> a = values(n, 1), b = values(n, 2), out = values(n, 3);
    if (n > 2) a[1] = std::numeric_limits<float>::infinity();
    tt::backend::cpu::triad(view(out), view(a), view(b), 1.5f);
    size_t wrong = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      const double expected = static_cast<double>(a[i]) + 1.5 * static_cast<double>(b[i]);
      wrong += !(std::isinf(expected) ? out[i] == a[i]
                                      : std::abs(out[i] - expected) <= 1e-6 * (1 + std::abs(expected)));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("fma_chains equals x / 2 + 1 / 2, repeated") {
  for (const int64_t n : kSizes) {
    for (const int64_t rounds : {0, 1, 2, 7, 30}) {
      CAPTURE(n);
      CAPTURE(rounds);
      std::vector<float> x = values(n, 5);
      const std::vector<float> before = x;
      tt::backend::cpu::fma_chains(view(x), rounds);
      size_t wrong = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double expected =
            1 + (static_cast<double>(before[i]) - 1) * std::pow(0.5, static_cast<double>(rounds));
        wrong += !(std::abs(x[i] - expected) <= 1e-6 * (1 + std::abs(expected)));
      }
      CHECK(wrong == 0);
    }
  }
}
