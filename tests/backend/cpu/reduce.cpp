// Reduction kernels called directly: long inputs, strided outputs, NaN, sums of integers in 64 bits,
// independence of threads.
#include <doctest/doctest.h>
#include <limits>

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <tinytorch/backend/cpu/reduce.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

namespace {
std::vector<float> uniform(int64_t n, double low, double high) {
  tt::Generator g(1);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = static_cast<float>(g.uniform(low, high));
  return v;
}
}  // namespace

TEST_CASE("a long sum is accurate to an epsilon of the terms") {
  std::vector<float> x = uniform(1'000'003, 0, 1);
  double exact = 0, squares = 0;
  for (float v : x) exact += v, squares += static_cast<double>(v) * v;
  float out = 0;
  const bool all[] = {true};
  const View in{x.data(), tt::f32, {static_cast<int64_t>(x.size())}, {1}}, result{&out, tt::f32, {}, {}};
  cpu::reduce(ReduceFn::sum, result, in, all);
  CHECK(std::abs(out - exact) <= exact * 3e-7);
  cpu::reduce(ReduceFn::sum, result, in, all, 1e6);
  CHECK(std::abs(out - exact / 1e6) <= exact / 1e6 * 3e-7);
  cpu::reduce(ReduceFn::sum_square, result, in, all);
  CHECK(std::abs(out - squares) <= squares * 3e-7);
}

TEST_CASE("long sums of both signs, along columns and rows, are accurate to an epsilon of the terms") {
  constexpr int64_t kLong = 333'334, kShort = 3;
  std::vector<float> x = uniform(kLong * kShort, -1, 1);
  for (const bool columns : {false, true}) {
    const View in{x.data(), tt::f32, {kLong, kShort}, {columns ? kShort : 1, columns ? 1 : kLong}};
    for (const ReduceFn fn : {ReduceFn::sum, ReduceFn::sum_square}) {
      float out[kShort];
      const bool rows[] = {true, false};
      cpu::reduce(fn, {out, tt::f32, {kShort}, {1}}, in, rows);
      for (int64_t j = 0; j < kShort; ++j) {
        double exact = 0, size = 0;
        for (int64_t i = 0; i < kLong; ++i) {
          const double v = double{x[static_cast<size_t>(i * in.strides[0] + j * in.strides[1])]};
          exact += fn == ReduceFn::sum ? v : v * v;
          size += fn == ReduceFn::sum ? std::abs(v) : v * v;
        }
        CHECK(std::abs(double{out[j]} - exact) <= 2e-7 * size);
      }
    }
  }
}

TEST_CASE("integers are summed in 64 bits") {
  std::vector<int32_t> x(1000, 2'000'000'000);
  int64_t out = 0;
  const bool all[] = {true};
  cpu::reduce(ReduceFn::sum, {&out, tt::i64, {}, {}}, {x.data(), tt::i32, {1000}, {1}}, all);
  CHECK(out == 2'000'000'000'000);
  cpu::reduce(ReduceFn::sum, {&out, tt::i64, {}, {}}, {x.data(), tt::i32, {500}, {2}}, all);
  CHECK(out == 1'000'000'000'000);
  std::vector<int32_t> tens(12, 10);
  cpu::reduce(ReduceFn::prod, {&out, tt::i64, {}, {}}, {tens.data(), tt::i32, {12}, {1}}, all);
  CHECK(out == 1'000'000'000'000);
  int64_t columns[2];
  const bool rows[] = {true, false};
  cpu::reduce(ReduceFn::sum, {columns, tt::i64, {2}, {1}}, {x.data(), tt::i32, {500, 2}, {2, 1}}, rows);
  CHECK(columns[0] == 1'000'000'000'000);
  CHECK(columns[1] == 1'000'000'000'000);
}

TEST_CASE("no values reduce to the neutral element, as one result or as columns") {
  double none = 0;
  for (const bool by_columns : {false, true}) {
    double out[4] = {5, 5, 5, 5};
    const bool first[] = {true, false};
    const View in = by_columns ? View{&none, tt::f64, {0, 4}, {4, 1}} : View{&none, tt::f64, {0, 4}, {1, 9}};
    cpu::reduce(ReduceFn::sum, {out, tt::f64, {4}, {1}}, in, first);
    for (double v : out) CHECK(v == 0);
    cpu::reduce(ReduceFn::prod, {out, tt::f64, {4}, {1}}, in, first);
    for (double v : out) CHECK(v == 1);
  }
}

TEST_CASE("max and min return NaN if there is one at any position; infinities are ordinary values") {
  for (const int64_t n : {1, 5, 64, 65, 1025, 40'000}) {
    for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
      std::vector<float> x = uniform(n, -1, 1);
      x[static_cast<size_t>(at)] = NAN;
      float out = 0;
      const bool all[] = {true};
      const View in{x.data(), tt::f32, {n}, {1}}, result{&out, tt::f32, {}, {}};
      cpu::reduce(ReduceFn::max, result, in, all);
      CHECK(std::isnan(out));
      cpu::reduce(ReduceFn::min, result, in, all);
      CHECK(std::isnan(out));
      int64_t where = -1;
      cpu::arg_extreme({&where, tt::i64, {}, {}}, in, 0, true);
      CHECK(where == at);
      x[static_cast<size_t>(at)] = -INFINITY;
      cpu::reduce(ReduceFn::min, result, in, all);
      CHECK(out == -INFINITY);
      cpu::arg_extreme({&where, tt::i64, {}, {}}, in, 0, false);
      CHECK(where == at);
    }
  }
  float low[] = {-INFINITY, -INFINITY}, out = 0;
  const bool all[] = {true};
  cpu::reduce(ReduceFn::max, {&out, tt::f32, {}, {}}, {low, tt::f32, {2}, {1}}, all);
  CHECK(out == -INFINITY);
}

TEST_CASE("arg-extrema return the first of equal values") {
  std::vector<int32_t> x(3000, 4);
  x[1500] = x[2900] = 9;
  x[700] = x[800] = -9;
  int64_t where = -1;
  const View in{x.data(), tt::i32, {3000}, {1}}, result{&where, tt::i64, {}, {}};
  cpu::arg_extreme(result, in, 0, true);
  CHECK(where == 1500);
  cpu::arg_extreme(result, in, 0, false);
  CHECK(where == 700);
}

TEST_CASE("any and all") {
  std::vector<uint8_t> x(2000, 0);
  bool out = true;
  const bool all[] = {true};
  const View in{x.data(), tt::u8, {2000}, {1}}, result{&out, tt::boolean, {}, {}};
  cpu::reduce(ReduceFn::any, result, in, all);
  CHECK_FALSE(out);
  x[1999] = 255;
  cpu::reduce(ReduceFn::any, result, in, all);
  CHECK(out);
  cpu::reduce(ReduceFn::all, result, in, all);
  CHECK_FALSE(out);
  std::fill(x.begin(), x.end(), uint8_t{2});
  cpu::reduce(ReduceFn::all, result, in, all);
  CHECK(out);
  x[0] = 0;
  cpu::reduce(ReduceFn::all, result, in, all);
  CHECK_FALSE(out);
}

TEST_CASE(
    "any and all of bools: rows and columns of every length, with one different value at any position") {
  for (const int64_t n : {1, 2, 63, 64, 65, 255, 257, 1025, 40'000}) {
    CAPTURE(n);
    constexpr int64_t kRows = 3;
    for (const bool rest : {false, true}) {
      for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
        std::vector<uint8_t> x(static_cast<size_t>(kRows * n), rest);
        x[static_cast<size_t>(n + at)] = !rest;  // in the middle row
        for (const bool columns : {false, true}) {
          if (columns) {  // the same values as columns
            std::vector<uint8_t> turned(x.size());
            for (int64_t i = 0; i < kRows * n; ++i)
              turned[static_cast<size_t>(i % n * kRows + i / n)] = x[static_cast<size_t>(i)];
            x = turned;
          }
          const View in{x.data(), tt::boolean, {kRows, n}, {columns ? 1 : n, columns ? kRows : 1}};
          uint8_t out[kRows];
          const View result{out, tt::boolean, {kRows}, {1}};
          const bool along[] = {false, true};
          cpu::reduce(ReduceFn::any, result, in, along);
          for (int64_t r = 0; r < kRows; ++r) CHECK(out[r] == (rest ? (n > 1 || r != 1) : r == 1));
          cpu::reduce(ReduceFn::all, result, in, along);
          for (int64_t r = 0; r < kRows; ++r) CHECK(out[r] == (rest ? r != 1 : (n == 1 && r == 1)));
        }
      }
    }
  }
}

TEST_CASE("the same bits at one, two and three threads") {
  std::vector<float> x = uniform(700 * 901, -1, 1);
  const View in{x.data(), tt::f32, {700, 901}, {901, 1}};
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      const bool reduced[] = {first, second};
      std::vector<float> reference;
      for (const int threads : {1, 2, 3}) {
        tt::set_thread_count(threads);
        std::vector<float> out(700 * 901, 0);
        tt::Shape shape{first ? 1 : 700, second ? 1 : 901};
        cpu::reduce(ReduceFn::sum, {out.data(), tt::f32, shape, {shape[1], 1}}, in, reduced);
        if (threads == 1) reference = out;
        CHECK(std::memcmp(out.data(), reference.data(), out.size() * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("cumsum along a strided dimension") {
  std::vector<int32_t> x{1, 2, 3, 4, 5, 6};
  std::vector<int64_t> out(6);
  cpu::cumsum({out.data(), tt::i64, {2, 3}, {3, 1}}, {x.data(), tt::i32, {2, 3}, {1, 2}}, 0);
  CHECK(out == std::vector<int64_t>{1, 3, 5, 3, 7, 11});
}

TEST_CASE("cumsum of integers wraps") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> x{kMost, 1, 1}, out(3);
  cpu::cumsum({out.data(), tt::i64, {3}, {1}}, {x.data(), tt::i64, {3}, {1}}, 0);
  CHECK(out == std::vector<int64_t>{kMost, -kMost - 1, -kMost});
}
