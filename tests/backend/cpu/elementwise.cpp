// Elementwise kernels called directly: in-place use, runs longer than a buffer, and the same bits at any
// number of threads.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/core/error.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

namespace {
std::vector<float> uniform(size_t n, double low, double high, uint64_t seed = 1) {
  tt::Generator g(seed);
  std::vector<float> v(n);
  for (float& x : v) x = static_cast<float>(g.uniform(low, high));
  return v;
}
View view(std::vector<float>& v) { return {v.data(), tt::f32, {static_cast<int64_t>(v.size())}, {1}}; }
}  // namespace

TEST_CASE("out may be an input") {
  std::vector<float> x = uniform(5000, -2, 2), before = x;
  cpu::unary(UnaryFn::square, view(x), view(x));
  for (size_t i = 0; i < x.size(); ++i) CHECK(x[i] == before[i] * before[i]);
  std::vector<float> y = uniform(5000, -2, 2, 2), start = y;
  cpu::binary(BinaryFn::sub, view(y), view(x), view(y));
  int wrong = 0;
  for (size_t i = 0; i < y.size(); ++i) wrong += y[i] != x[i] - start[i];
  CHECK(wrong == 0);
}

TEST_CASE("strided and broadcast operands around the lengths at which loops change") {
  for (const int64_t row : {1, 3, 255, 256, 257, 1023, 1024, 1025, 3000, 8197}) {
    const int64_t rows = 5;
    std::vector<float> a = uniform(static_cast<size_t>(2 * rows * row), -1, 1),
                       b = uniform(static_cast<size_t>(row), -1, 1, 2);
    std::vector<float> c = uniform(static_cast<size_t>(rows), -1, 1, 3),
                       out(static_cast<size_t>(3 * rows * row), 9);
    const View stepped{a.data(), tt::f32, {rows, row}, {2 * row, 2}};
    const View target{out.data(), tt::f32, {rows, row}, {3 * row, 3}};
    const View right{b.data(), tt::f32, {row}, {1}}, column{c.data(), tt::f32, {rows, 1}, {1, 1}};
    cpu::binary(BinaryFn::sub, target, stepped, right);
    cpu::binary(BinaryFn::mul, target, target, column);
    std::vector<float> in_rows(static_cast<size_t>(rows * row));
    cpu::binary(BinaryFn::sub, {in_rows.data(), tt::f32, {rows, row}, {row, 1}}, column, right);
    int wrong_in_rows = 0;
    for (int64_t i = 0; i < rows * row; ++i)
      wrong_in_rows += in_rows[static_cast<size_t>(i)] !=
                       c[static_cast<size_t>(i / row)] - b[static_cast<size_t>(i % row)];
    CHECK(wrong_in_rows == 0);
    int wrong = 0;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < 3 * row; ++j) {
        const float got = out[static_cast<size_t>(3 * row * i + j)];
        const float want =
            j % 3 == 0 ? (a[static_cast<size_t>(2 * row * i + 2 * (j / 3))] - b[static_cast<size_t>(j / 3)]) *
                             c[static_cast<size_t>(i)]
                       : 9;
        wrong += got != want;
      }
    }
    INFO("row ", row);
    CHECK(wrong == 0);
  }
}

TEST_CASE("fill writes strided elements only") {
  std::vector<float> v(10, 1);
  cpu::fill({v.data() + 1, tt::f32, {3}, {3}}, 2.5);
  CHECK(v == std::vector<float>{1, 2.5, 1, 1, 2.5, 1, 1, 2.5, 1, 1});
  int64_t n = 0;
  cpu::fill({&n, tt::i64, {}, {}}, (int64_t{1} << 60) + 1);
  CHECK(n == (int64_t{1} << 60) + 1);
}

TEST_CASE("where selects by condition") {
  bool condition[] = {true, false, true};
  float a[] = {1, 2, 3}, b[] = {NAN, 20, NAN}, out[3];
  const View chosen{condition, tt::boolean, {3}, {1}}, first{a, tt::f32, {3}, {1}};
  cpu::where({out, tt::f32, {3}, {1}}, chosen, first, {b, tt::f32, {3}, {1}});
  CHECK(out[0] == 1);
  CHECK(out[1] == 20);  // the NaN that is not selected has no effect
  CHECK(out[2] == 3);
  cpu::where({out, tt::f32, {3}, {1}}, chosen, {b, tt::f32, {3}, {0}},
             first);  // b is broadcast from one element
  CHECK(std::isnan(out[0]));
  CHECK(out[1] == 2);
  CHECK(std::isnan(out[2]));
}

TEST_CASE("where of contiguous operands: every dtype, several threads, in place") {
  const size_t n = 70'001;
  tt::Generator g(5);
  std::vector<uint8_t> bytes(3 * 8 * n), condition(n);
  for (const tt::DType t : {tt::f32, tt::f64, tt::bf16, tt::f16, tt::i32, tt::i64, tt::u8, tt::boolean}) {
    INFO(tt::name_of(t));
    const size_t size = tt::size_of(t);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(g.below(t == tt::boolean ? 2 : 256));
    for (uint8_t& byte : condition) byte = static_cast<uint8_t>(g.below(2));
    std::vector<uint8_t> want(size * n);
    for (size_t i = 0; i < n; ++i)
      std::memcpy(&want[i * size], &bytes[(condition[i] != 0 ? i : n + i) * size], size);
    const auto part = [&](size_t k) { return View{&bytes[k * n * size], t, {static_cast<int64_t>(n)}, {1}}; };
    const View chosen{condition.data(), tt::boolean, {static_cast<int64_t>(n)}, {1}};
    cpu::where(part(2), chosen, part(0), part(1));
    CHECK(std::memcmp(&bytes[2 * n * size], want.data(), want.size()) == 0);
    cpu::where(part(1), chosen, part(0), part(1));
    CHECK(std::memcmp(&bytes[n * size], want.data(), want.size()) == 0);
  }
}

TEST_CASE("every function gives the same bits at one and two threads, aligned or not") {
  const int64_t n = 100'003;
  std::vector<float> x = uniform(static_cast<size_t>(2 * n + 1), 0.01, 3),
                     y = uniform(static_cast<size_t>(2 * n + 1), -3, 3, 2);
  for (int64_t i = 0; i < n; i += 1000)
    x[static_cast<size_t>(i)] = 1e10f;  // sin and cos reduce huge arguments in libm
  std::vector<float> out[2];
  const auto compare = [&](const std::function<void(const View&, const View&, const View&)>& run) {
    for (const int64_t step : {1, 2}) {
      for (int threads = 1; threads <= 2; ++threads) {
        tt::set_thread_count(threads);
        auto& o = out[threads - 1];
        o.assign(static_cast<size_t>(2 * n + 1), 0);
        run({o.data() + 1, tt::f32, {n}, {1}}, {x.data() + 1, tt::f32, {n}, {step}},
            {y.data() + 1, tt::f32, {n}, {step}});
      }
      CHECK(std::memcmp(out[0].data(), out[1].data(), out[0].size() * sizeof(float)) == 0);
    }
  };
  for (int fn = 0; fn < kUnaryCount; ++fn) {
    INFO("unary ", fn);
    compare([&](const View& o, const View& a, const View&) {
      cpu::unary(static_cast<UnaryFn>(fn), o, a, 0.1, 2);
    });
  }
  for (int fn = 0; fn < kBinaryCount; ++fn) {
    INFO("binary ", fn);
    compare([&](const View& o, const View& a, const View& b) {
      cpu::binary(static_cast<BinaryFn>(fn), o, a, b, 0.1);
    });
  }
}

// Blocks of ordinary values (math::Range) use a faster loop, which must give the same bits.
TEST_CASE_TEMPLATE("an element gives the same bits in a block of ordinary values and in any other block", T,
                   float, double) {
  using Bits = tt::math::BitsOf<T>;
  tt::Generator g(31);
  const auto apply = [](UnaryFn fn, std::vector<T>& x) {
    const auto n = static_cast<int64_t>(x.size());
    std::vector<T> y(x.size());
    cpu::unary(fn, {y.data(), tt::dtype_of<T>, {n}, {1}}, {x.data(), tt::dtype_of<T>, {n}, {1}}, 0.1, 2);
    return y;
  };
  std::vector<T> x;
  for (const T edge : {T(10), T(87), T(88), T(103), T(708), T(709), T(746), T(0x1p20), T(1), T(0)}) {
    for (const T v : {edge, std::nextafter(edge, T(1e9)), std::nextafter(edge, T(-1e9))})
      x.insert(x.end(), {v, -v});
  }
  for (const T v : {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T(INFINITY), T(NAN)})
    x.insert(x.end(), {v, -v, std::nextafter(v, T(0))});
  while (x.size() < 1500) {
    x.push_back(std::bit_cast<T>(static_cast<Bits>(g.below(UINT64_MAX))));
    x.push_back(static_cast<T>(g.uniform(-100, 100)));
    x.push_back(static_cast<T>(g.uniform(0, 3)));
  }
  for (int fn = 0; fn < kUnaryCount; ++fn) {
    INFO("unary ", fn);
    const auto f = static_cast<UnaryFn>(fn);
    const std::vector<T> all = apply(f, x);  // in blocks with special values
    int64_t wrong = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      std::vector<T> calm(1 + i % 37, T(0.5));  // x[i] is in a vector or in the remainder
      const size_t at = i % calm.size();
      calm[at] = x[i];
      const T alone = apply(f, calm)[at];
      wrong +=
          std::bit_cast<Bits>(alone) != std::bit_cast<Bits>(all[i]) && !(alone != alone && all[i] != all[i]);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("the kernel rejects a float function of integers") {
  int32_t n = 1;
  const View v{&n, tt::i32, {}, {}};
  CHECK_THROWS_WITH(cpu::unary(UnaryFn::exp, v, v),
                    doctest::Contains("TT-DTYPE-02: unary: this function needs a floating dtype"));
  CHECK_THROWS_WITH(cpu::binary(BinaryFn::div, v, v, v),
                    doctest::Contains("TT-DTYPE-02: binary: this function needs a floating dtype"));
}
