#include <support/array.hpp>

#include <cmath>
#include <tinytorch/backend/cpu/loops/argument_range.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

// One value that is not ordinary is found at every position of a block, and a block of ordinary values
// passes.
template <class T, class Check>
void check_block(T usual, const std::vector<T>& ordinary, const std::vector<T>& others, const Check& check) {
  for (int64_t n = 1; n < 40; ++n) {
    std::vector<T> x(static_cast<size_t>(n), usual);
    CHECK(check(x.data(), n));
    for (size_t i = 0; i < x.size(); ++i) {
      for (const T v : ordinary) {
        x[i] = v;
        CHECK(check(x.data(), n));
      }
      for (const T v : others) {
        x[i] = v;
        CHECK_FALSE(check(x.data(), n));
      }
      x[i] = usual;
    }
  }
}

TEST_CASE_TEMPLATE("bounds are exact to the last bit, and NaN is outside", T, float, double) {
  using L = std::numeric_limits<T>;
  const T limit = T(87), above = std::nextafter(limit, L::infinity());
  check_block<T>(T(1), {limit, -limit, T(0), -T(0), L::denorm_min()},
                 {above, -above, L::infinity(), -L::infinity(), L::quiet_NaN(), -L::quiet_NaN()},
                 [limit](const T* x, int64_t n) { return kernels::all_within(limit, x, n); });
  const T below = std::nextafter(L::min(), T(0));
  check_block<T>(T(1), {L::min(), L::max()},
                 {below, L::denorm_min(), T(0), -T(0), T(-1), -L::min(), -L::denorm_min(), -L::max(),
                  L::infinity(), -L::infinity(), L::quiet_NaN(), -L::quiet_NaN()},
                 [](const T* x, int64_t n) { return kernels::all_positive_and_normal(x, n); });
}
