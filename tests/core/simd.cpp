// Vectors of the target's register width: load, store, broadcast, shuffle, fold and lane-wise arithmetic.
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
  tt::Simd<T> v = tt::simd_load(x.data() + 1);  // unaligned
  tt::keep_in_register(v);                      // must not change v
  tt::simd_store(out.data() + 1, v * v + tt::simd_broadcast(T(2)));
  CHECK(out.front() == T(77));
  CHECK(out.back() == T(77));
  for (size_t i = 1; i <= static_cast<size_t>(kL); ++i) CHECK(out[i] == static_cast<T>(x[i] * x[i] + 2));
}

// Shuffles of the lanes of a and b in three orders.
template <class T>
void check_shuffles() {
  constexpr int64_t kL = tt::kLanes<T>;
  std::vector<T> both(2 * kL), out(kL);
  for (size_t i = 0; i < both.size(); ++i) both[i] = static_cast<T>(i + 1);
  const auto check = [&](auto from) {
    const tt::Simd<T> a = tt::simd_load(both.data()), b = tt::simd_load(both.data() + kL);
    tt::simd_store(out.data(), tt::simd_shuffle<T>(a, b, from));
    for (int64_t i = 0; i < kL; ++i) CHECK(out[static_cast<size_t>(i)] == both[static_cast<size_t>(from(i))]);
  };
  check([](int64_t i) { return 2 * i + 1; });
  check([](int64_t i) { return kL + (i + 1) % kL; });
  check([](int64_t i) { return i % 3 == 0 ? 2 * kL - 1 - i : i; });
}
}  // namespace

TEST_CASE("a shuffle can select any lane of either vector") {
  check_shuffles<float>();
  check_shuffles<double>();
  check_shuffles<int64_t>();
  check_shuffles<uint16_t>();
  check_shuffles<int8_t>();
}

TEST_CASE("load, store and arithmetic for each element type") {
  check_lanes<float>();
  check_lanes<double>();
  check_lanes<int32_t>();
  check_lanes<int64_t>();
}

TEST_CASE("a broadcast keeps the value, including minus zero and infinities") {
  for (const float x : {1.5f, -0.0f, 0.0f, INFINITY, -INFINITY}) {
    float lanes[tt::kLanes<float>];
    tt::simd_store(lanes, tt::simd_broadcast(x));
    for (float lane : lanes) {
      CHECK(lane == x);
      CHECK(std::signbit(lane) == std::signbit(x));
    }
  }
}

TEST_CASE_TEMPLATE("a fold uses every lane once", T, float, double, int8_t, uint16_t, int32_t, int64_t) {
  tt::Simd<T> v{};
  for (int64_t i = 0; i < tt::kLanes<T>; ++i) v[i] = static_cast<T>(i + 1);
  const auto sum = [](tt::Simd<T> a, tt::Simd<T> b) { return a + b; };
  const auto most = [](tt::Simd<T> a, tt::Simd<T> b) { return a > b ? a : b; };
  const int64_t n = tt::kLanes<T>;
  CHECK(tt::simd_fold<T>(v, sum) == static_cast<T>(n * (n + 1) / 2));
  for (int64_t i = 0; i < n; ++i) {
    tt::Simd<T> one{};
    one[i] = T(3);
    CHECK(tt::simd_fold<T>(one, sum) == T(3));
    CHECK(tt::simd_fold<T>(one, most) == T(3));
  }
}
