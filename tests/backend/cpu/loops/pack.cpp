// Packing: conversions between all dtypes, and runs of strided views.
#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tuple>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

TEST_CASE("locate and for_each_run enumerate elements in row-major order") {
  const tt::Shape shape{3, 4, 5};
  const tt::Strides strides{7, -2, 30};
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      for (int64_t k = 0; k < 5; ++k) expected.push_back(7 * i - 2 * j + 30 * k);
    }
  }
  int64_t index[tt::kMaxRank];
  for (int64_t n = 0; n < 60; ++n)
    CHECK(locate(shape, strides, n, index) == expected[static_cast<size_t>(n)]);
  for (const int64_t first : {0, 1, 4, 5, 19, 59}) {
    for (const int64_t count : {0, 1, 3, 5, 6, 40}) {
      if (first + count > 60) continue;
      std::vector<int64_t> seen;
      for_each_run(shape, strides, first, count, [&](int64_t offset, int64_t length) {
        for (int64_t k = 0; k < length; ++k) seen.push_back(offset + 30 * k);
      });
      CHECK(seen == std::vector<int64_t>(expected.begin() + first, expected.begin() + first + count));
    }
  }
  bool called = false;
  for_each_run({0, 3}, {3, 1}, 0, 0, [&](int64_t, int64_t) { called = true; });
  CHECK_FALSE(called);
}

TEST_CASE("pack and unpack convert between dtypes and strides") {
  std::vector<tt::Half> half(12);
  for (size_t i = 0; i < half.size(); ++i) half[i] = tt::Half(static_cast<float>(i) * 0.5f);
  const View transposed{half.data(), tt::f16, {3, 4}, {1, 3}};
  float buffer[7] = {};
  pack(buffer, transposed, 2, 6);
  for (int64_t n = 0; n < 6; ++n) {
    const int64_t i = (n + 2) / 4, j = (n + 2) % 4;
    CHECK(buffer[n] == static_cast<float>(i + 3 * j) * 0.5f);
  }
  CHECK(buffer[6] == 0);
  std::vector<int64_t> out(12, -1);
  const View target{out.data(), tt::i64, {3, 2}, {4, 2}};  // every second column
  const float values[] = {10.9f, 20, 30, 40, 50, 60};
  unpack(target, 0, values, 6);
  CHECK(out == std::vector<int64_t>{10, -1, 20, -1, 30, -1, 40, -1, 50, -1, 60, -1});
  const View repeated{half.data() + 4, tt::f16, {5}, {0}};
  pack(buffer, repeated, 0, 5);
  for (int i = 0; i < 5; ++i) CHECK(buffer[i] == 2);
}

TEST_CASE_TEMPLATE("conversion to i64 gives the same result alone and in a run", T, float, double) {
  constexpr T kInf = std::numeric_limits<T>::infinity(), kNan = std::numeric_limits<T>::quiet_NaN();
  const T special[] = {T(0x1p31), -T(0x1p31), T(2147483520), T(-2147483520), T(0x1p62), -T(0x1p63), T(0x1p63),
                       kInf,      -kInf,      kNan,          T(-0.0),        T(1.9),    T(-1.9)};
  for (const T odd : special) {
    for (const int64_t n : {1, 63, 64, 65, 200}) {
      for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
        std::vector<T> x(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = T(i) * T(0.7) - 40;
        x[static_cast<size_t>(at)] = odd;
        std::vector<int64_t> out(x.size(), -1);
        convert_run(out.data(), 1, x.data(), 1, n);
        for (size_t i = 0; i < x.size(); ++i) CHECK(out[i] == convert<int64_t>(x[i]));
      }
    }
  }
}
