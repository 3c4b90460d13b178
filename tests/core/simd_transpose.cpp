// In-register transpose: every lane of every vector, for all element widths.
#include <doctest/doctest.h>

#include <tinytorch/core/simd_transpose.hpp>

namespace tt = tinytorch;

TEST_CASE_TEMPLATE("the transpose exchanges rows and lanes", T, float, double, int32_t, int64_t, uint16_t) {
  constexpr int64_t kN = tt::kLanes<T>;
  tt::Simd<T> v[kN];
  for (int64_t i = 0; i < kN; ++i)
    for (int64_t k = 0; k < kN; ++k) v[i][k] = static_cast<T>(i * kN + k);
  tt::simd_transpose<T>(v);
  for (int64_t i = 0; i < kN; ++i)
    for (int64_t k = 0; k < kN; ++k) CHECK(T(v[i][k]) == static_cast<T>(k * kN + i));
}
