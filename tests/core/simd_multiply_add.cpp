// Multiply-adds of vectors: each lane has the bits of math::multiply_add, whatever the loop around it.
#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <tinytorch/core/random.hpp>
#include <tinytorch/core/simd_multiply_add.hpp>
#include <vector>

namespace tt = tinytorch;

namespace {

template <class T>
std::vector<T> numbers(int64_t n, uint64_t seed) {
  tt::Generator g(seed);
  std::vector<T> x(static_cast<size_t>(n));
  for (T& v : x) v = static_cast<T>(g.uniform(-1, 1));
  return x;
}
template <class T>
bool equal_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// The sums over k of a[k] b[k], lane by lane, with so many sums in the loop.
template <class T, int kSums>
[[gnu::noinline]] void sums_of(T* out, const T* a, const T* b, int64_t depth) {
  tt::Simd<T> sum[kSums] = {};
  for (int64_t k = 0; k < depth; ++k) {
    TT_UNROLL
    for (int i = 0; i < kSums; ++i)
      sum[i] = tt::simd_multiply_add<T>(tt::simd_load(a + (i * depth + k) * tt::kLanes<T>),
                                        tt::simd_load(b + k * tt::kLanes<T>), sum[i]);
  }
  for (int i = 0; i < kSums; ++i) tt::simd_store(out + i * tt::kLanes<T>, sum[i]);
}

}  // namespace

TEST_CASE_TEMPLATE("a lane has the bits of the scalar function, special values included", T, float, double) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const int64_t n = 64 * tt::kLanes<T>;
  std::vector<T> a = numbers<T>(n, 1), b = numbers<T>(n, 2), c = numbers<T>(n, 3);
  for (int64_t i = 0; i < n; i += 3)
    c[static_cast<size_t>(i)] = -a[static_cast<size_t>(i)] * b[static_cast<size_t>(i)];
  a[1] = kInfinity, b[2] = -kInfinity, c[4] = kInfinity, a[5] = -T(0), c[5] = -T(0),
  a[7] = std::numeric_limits<T>::denorm_min();
  for (int64_t i = 0; i < n; i += tt::kLanes<T>) {
    const auto lanes = tt::simd_multiply_add<T>(tt::simd_load(&a[static_cast<size_t>(i)]),
                                                tt::simd_load(&b[static_cast<size_t>(i)]),
                                                tt::simd_load(&c[static_cast<size_t>(i)]));
    for (int64_t lane = 0; lane < tt::kLanes<T>; ++lane) {
      const auto j = static_cast<size_t>(i + lane);
      const T whole = lanes[lane];
      CHECK(equal_bits(whole, tt::math::multiply_add(a[j], b[j], c[j])));
      CHECK(equal_bits(
          whole, tt::multiply_add_lanes<T, tt::Simd<T>>(tt::simd_broadcast(a[j]), tt::simd_broadcast(b[j]),
                                                        tt::simd_broadcast(c[j]))[0]));
      CHECK(equal_bits(whole, tt::multiply_add_lanes<T, T>(a[j], b[j], c[j])));
    }
  }
}

TEST_CASE("NaN stays NaN, and integers wrap") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(tt::simd_multiply_add<float>(tt::simd_broadcast(nan), tt::simd_broadcast(1.0f),
                                                tt::simd_broadcast(2.0f))[0]));
  CHECK(std::isnan(tt::simd_multiply_add<float>(tt::simd_broadcast(0.0f), tt::simd_broadcast(1.0f),
                                                tt::simd_broadcast(nan))[0]));
  const auto big = tt::simd_broadcast(uint32_t{1} << 31);
  CHECK(tt::simd_multiply_add<uint32_t>(big, tt::simd_broadcast(2u), tt::simd_broadcast(7u))[0] == 7);
}

TEST_CASE_TEMPLATE("one sum in a loop has the bits that it has beside others", T, float, double) {
  constexpr int64_t kDepth = 100, kL = tt::kLanes<T>;
  const std::vector<T> a = numbers<T>(4 * kDepth * kL, 4), b = numbers<T>(kDepth * kL, 5);
  T alone[kL], beside[4 * kL];
  sums_of<T, 4>(beside, a.data(), b.data(), kDepth);
  for (int i = 0; i < 4; ++i) {
    sums_of<T, 1>(alone, a.data() + i * kDepth * kL, b.data(), kDepth);
    CHECK(std::memcmp(alone, beside + i * kL, sizeof alone) == 0);
    for (int64_t lane = 0; lane < kL; ++lane) {
      T sum = 0;
      for (int64_t k = 0; k < kDepth; ++k)
        sum = tt::math::multiply_add(a[static_cast<size_t>((i * kDepth + k) * kL + lane)],
                                     b[static_cast<size_t>(k * kL + lane)], sum);
      CHECK(equal_bits(alone[lane], sum));
    }
  }
}
