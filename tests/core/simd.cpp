// Vectors of the target's width: loads, stores, broadcasts and lane-wise arithmetic.
#include <doctest/doctest.h>

#include <cmath>
#include <tinytorch/core/simd.hpp>
#include <vector>

namespace tt = tinytorch;

namespace {
template <class T>
void check_lanes() {
  constexpr int64_t kL = tt::kLanes<T>;
  CHECK(kL * static_cast<int64_t>(sizeof(T)) == tt::kSimdBytes);
  CHECK(sizeof(tt::Simd<T>) == tt::kSimdBytes);
  std::vector<T> x(static_cast<size_t>(kL) + 2), out(static_cast<size_t>(kL) + 2, T(77));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(3 * i + 1);
  const tt::Simd<T> v = tt::simd_load(x.data() + 1);  // unaligned
  tt::simd_store(out.data() + 1, v * v + tt::simd_broadcast(T(2)));
  CHECK(out.front() == T(77));
  CHECK(out.back() == T(77));
  for (size_t i = 1; i <= static_cast<size_t>(kL); ++i) CHECK(out[i] == static_cast<T>(x[i] * x[i] + 2));
}
}  // namespace

TEST_CASE("one register of each type") {
  check_lanes<float>();
  check_lanes<double>();
  check_lanes<int32_t>();
  check_lanes<int64_t>();
}

TEST_CASE("a broadcast keeps the value, minus zero and infinities included") {
  for (const float x : {1.5f, -0.0f, 0.0f, INFINITY, -INFINITY}) {
    float lanes[tt::kLanes<float>];
    tt::simd_store(lanes, tt::simd_broadcast(x));
    for (float lane : lanes) {
      CHECK(lane == x);
      CHECK(std::signbit(lane) == std::signbit(x));
    }
  }
}
