// Prefix sums against a loop: every length around that of a vector, integers that wrap, rows of several
// blocks, special values.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <tinytorch/backend/cpu/reduce.hpp>
#include <tinytorch/backend/cpu/scan.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;
namespace cpu = tinytorch::backend::cpu;
using tinytorch::backend::View;

TEST_CASE_TEMPLATE("running_sum equals a loop for every length", T, float, double) {
  tt::Generator random(3);
  std::vector<T> x(100);
  for (T& v : x) v = static_cast<T>(random.uniform(-1, 1));
  for (int64_t n = 0; n <= 100; ++n) {
    std::vector<double> sums(101, -1);
    const double last = cpu::running_sum(sums.data(), x.data(), n, 0.25);
    double want = 0.25;
    for (int64_t i = 0; i < n; ++i) {
      want += static_cast<double>(x[static_cast<size_t>(i)]);
      CHECK(std::abs(sums[static_cast<size_t>(i)] - want) < 1e-13);
    }
    CHECK(std::abs(last - want) < 1e-13);
    CHECK(sums[static_cast<size_t>(n)] == -1);
  }
}

TEST_CASE_TEMPLATE("integers wrap at every length", T, int32_t, int64_t) {
  std::vector<T> x(37, std::numeric_limits<T>::max());
  std::vector<int64_t> sums(x.size());
  cpu::running_sum(sums.data(), x.data(), 37, int64_t{-5});
  uint64_t want = static_cast<uint64_t>(int64_t{-5});
  for (size_t i = 0; i < x.size(); ++i) {
    want += static_cast<uint64_t>(int64_t{x[i]});
    CHECK(sums[i] == static_cast<int64_t>(want));
  }
}

TEST_CASE("blocks of long rows: as accurate as a loop in double, and the same bits at any thread count") {
  constexpr int64_t kRows = 3, kLength = 3 * cpu::kReduceBlock + 77;
  tt::Generator random(5);
  std::vector<float> x(kRows * kLength);
  for (float& v : x) v = static_cast<float>(random.uniform(-1, 1));
  std::vector<float> reference;
  for (const bool strided : {false, true}) {  // contiguous rows, or the same rows as columns
    const tt::Shape shape{kRows, kLength};
    const View in =
        strided ? View{x.data(), tt::f32, shape, {1, kRows}} : View{x.data(), tt::f32, shape, {kLength, 1}};
    for (const int threads : {1, 2, 3}) {
      tt::set_thread_count(threads);
      std::vector<float> out(x.size());
      cpu::cumsum({out.data(), tt::f32, shape, {kLength, 1}}, in, 1);
      if (threads > 1) {
        CHECK(std::memcmp(out.data(), reference.data(), out.size() * sizeof(float)) == 0);
        continue;
      }
      reference = out;
      double worst = 0;
      for (int64_t r = 0; r < kRows; ++r) {
        long double want = 0;
        for (int64_t i = 0; i < kLength; ++i) {
          want += x[static_cast<size_t>(strided ? i * kRows + r : r * kLength + i)];
          const double got = static_cast<double>(out[static_cast<size_t>(r * kLength + i)]);
          worst = std::max(worst, std::abs(got - static_cast<double>(want)) / std::max(1.0, std::abs(got)));
        }
      }
      CHECK(worst < 0x1p-23);
    }
  }
}

TEST_CASE("infinities, NaN and sums beyond the range of float reach later elements, and no earlier ones") {
  constexpr int64_t kLength = 2 * cpu::kReduceBlock;
  std::vector<float> x(kLength, 1), out(kLength);
  const auto run = [&] {
    cpu::cumsum({out.data(), tt::f32, {kLength}, {1}}, {x.data(), tt::f32, {kLength}, {1}}, 0);
  };
  x[5] = INFINITY, x[40'000] = -INFINITY;
  run();
  CHECK(out[4] == 5);
  CHECK(out[5] == INFINITY);
  CHECK(out[39'999] == INFINITY);
  CHECK(std::isnan(out[40'000]));
  CHECK(std::isnan(out[kLength - 1]));
  std::fill(x.begin(), x.end(), 0.0f);
  x[1] = x[2] = 3e38f, x[3] = x[4] = -3e38f, x[40'000] = 1;
  run();
  CHECK(out[2] == INFINITY);
  CHECK(out[4] == 0);
  CHECK(out[39'999] == 0);
  CHECK(out[kLength - 1] == 1);
}

TEST_CASE_TEMPLATE("adjacent columns, in all pairs of layouts", T, float, double, int32_t, uint8_t) {
  tt::Generator random(9);
  for (const auto& [length, columns] : {std::pair<int64_t, int64_t>{1, 300}, {7, 1}, {33, 257}, {300, 31}}) {
    std::vector<T> x(static_cast<size_t>(2 * length * columns));
    for (T& v : x)
      v = static_cast<T>(random.uniform(std::is_unsigned_v<T> ? 0 : -100, 100) *
                         (std::is_floating_point_v<T> ? 0.01 : 1));
    constexpr bool kIntegers = std::is_integral_v<T>;
    using Out = std::conditional_t<kIntegers, int64_t, T>;
    const tt::Shape shape{2, length, columns};
    const tt::Strides by_columns{length * columns, columns, 1}, by_rows{length * columns, 1, length};
    for (const tt::Strides& from : {by_columns, by_rows}) {
      for (const tt::Strides& to : {by_columns, by_rows}) {
        std::vector<Out> out(x.size());
        cpu::cumsum({out.data(), tt::dtype_of<Out>, shape, to}, {x.data(), tt::dtype_of<T>, shape, from}, 1);
        int wrong = 0;
        for (int64_t b = 0; b < 2; ++b) {
          for (int64_t j = 0; j < columns; ++j) {
            double want = 0;
            for (int64_t i = 0; i < length; ++i) {
              want += static_cast<double>(x[static_cast<size_t>(b * from[0] + i * from[1] + j * from[2])]);
              const auto got =
                  static_cast<double>(out[static_cast<size_t>(b * to[0] + i * to[1] + j * to[2])]);
              wrong += !(std::abs(got - want) <= (kIntegers                  ? 0
                                                  : std::is_same_v<T, float> ? 1e-6
                                                                             : 1e-13) *
                                                     std::max(1.0, std::abs(want)));
            }
          }
        }
        CHECK(wrong == 0);
      }
    }
  }
}
