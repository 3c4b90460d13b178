// Positions of extremes among few distinct values, so that ties are common, with and without NaN.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <support/array.hpp>
#include <tinytorch/backend/cpu/loops/arg_extreme.hpp>
#include <vector>

namespace cpu = tinytorch::backend::cpu;
using tinytorch::Generator;

namespace {

// The definition: the first NaN, else the first of the largest (smallest) values.
template <class T>
int64_t expected_position(const std::vector<T>& x, bool largest) {
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) return static_cast<int64_t>(i);
    if (largest ? x[i] > x[at] : x[i] < x[at]) at = i;
  }
  return static_cast<int64_t>(at);
}

}  // namespace

TEST_CASE_TEMPLATE("the first extreme of a row, and of every column of a strip", T, float, double) {
  Generator generator(7);
  for (int64_t n = 1; n < 40; ++n) {
    std::vector<T> x;
    for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<T>(std::floor(generator.uniform(-4, 4))));
    for (const bool with_nan : {false, true}) {
      if (with_nan) x[static_cast<size_t>(n / 2)] = x.back() = std::numeric_limits<T>::quiet_NaN();
      CAPTURE(n);
      CHECK(cpu::arg_extreme_of_short_row<true>(x.data(), n) == expected_position(x, true));
      CHECK(cpu::arg_extreme_of_short_row<false>(x.data(), n) == expected_position(x, false));
      const auto wanted = static_cast<size_t>(expected_position(x, true));
      CHECK(cpu::find_first(x.data(), 1, n, x[wanted]) == static_cast<int64_t>(wanted));
      constexpr int64_t kColumns = 5;  // each a copy of the row
      std::vector<T> best(kColumns, x[0]), row(kColumns);
      std::vector<int64_t> position(kColumns, 0);
      for (int64_t i = 1; i < n; ++i) {
        row.assign(kColumns, x[static_cast<size_t>(i)]);
        cpu::update_extremes<true>(best.data(), position.data(), row.data(), i, kColumns);
      }
      CHECK(position == std::vector<int64_t>(kColumns, static_cast<int64_t>(wanted)));
    }
  }
}
