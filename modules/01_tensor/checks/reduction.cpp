#include <01_tensor/checks/reference.hpp>
#include <limits>
#include <tinytorch/backend/cpu/reduce.hpp>

using namespace course;
using backend::ReduceFn;
namespace cpu = backend::cpu;

namespace {

struct Kind {
  ReduceFn fn;
  const char* name;
  double start;
  double (*join)(double, double);
};
const Kind kSum{ReduceFn::sum, "sum", 0, [](double s, double v) { return s + v; }};
const Kind kSquares{ReduceFn::sum_square, "sum_square", 0, [](double s, double v) { return s + v * v; }};
const Kind kProd{ReduceFn::prod, "prod", 1, [](double s, double v) { return s * v; }};
const Kind kMax{ReduceFn::max, "max", -HUGE_VAL, [](double s, double v) { return v > s ? v : s; }};
const Kind kMin{ReduceFn::min, "min", HUGE_VAL, [](double s, double v) { return v < s ? v : s; }};
const Kind kAny{ReduceFn::any, "any", 0, [](double s, double v) { return s != 0 || v != 0 ? 1.0 : 0.0; }};
const Kind kAll{ReduceFn::all, "all", 1, [](double s, double v) { return s != 0 && v != 0 ? 1.0 : 0.0; }};

// A double cannot represent this number: it would be rounded to 2^53.
constexpr int64_t kExact = (int64_t{1} << 53) + 1;
using Integers = std::vector<int64_t>;
View view_of(Integers& x) { return {x.data(), i64, {static_cast<int64_t>(x.size())}, {1}}; }

void check_exact(const Kind& kind, Integers x, int64_t want) {
  Integers out{-1};
  const bool flags[] = {true};
  cpu::reduce(kind.fn, {out.data(), i64, {}, {}}, view_of(x), flags);
  expect_equal(std::string(kind.name) + " of i64 " + shown(x) + ", exactly", out[0], want);
}
void check_running_sum(Integers x, const Integers& want, const std::string& why) {
  Integers out(x.size(), -1);
  cpu::cumsum(view_of(out), view_of(x), 0);
  expect_equal("cumsum of i64 " + shown(x) + ", " + why, out, want);
}

using Which = std::vector<int>;  // the reduced dimensions

void check_reduce(const Kind& kind, Values x, DType result, const Which& which, Layout layout,
                  double divisor = 1, bool keep = false) {
  bool flags[kMaxRank] = {};
  std::string along;
  for (int d : which) {
    flags[d] = true;
    along += (along.empty() ? "" : ", ") + std::to_string(d);
  }
  Shape to;
  for (int d = 0; d < x.shape().size(); ++d) {
    if (!flags[d] || keep) to.push_back(flags[d] ? 1 : x.shape()[d]);
  }
  Values out(result, to);
  Reduced want = reduced(x.numbers(), x.shape(), flags, kind.start, kind.join);
  for (double& v : want.values) v /= divisor;
  cpu::reduce(kind.fn, out.view(), x.view(), flags, divisor);
  expect_close(std::string(kind.name) + " of " + name_of(x.dtype()) + " " + x.shape().str() + " over {" +
                   along + "}, " + name_of_layout(layout),
               out, want.values, {.scale = want.scale});
}
void check_reduce(const Kind& kind, DType dtype, const Shape& shape, const Which& which,
                  Layout layout = Layout::contiguous) {
  check_reduce(kind, Values::random(dtype, shape, layout, -3, 3), dtype, which, layout);
}

void check_position(const Numbers& x, bool largest, double want) {
  Values values = Values::of(f32, {static_cast<int64_t>(x.size())}, x), out(i64, {});
  cpu::arg_extreme(out.view(), values.view(), 0, largest);
  expect_close(std::string(largest ? "argmax" : "argmin") + " of " + shown(x), out, {want});
}

}  // namespace

TEST_CASE("1.5 a sum over the last dimension") {
  check_reduce(kSum, f32, {5}, {0});
  check_reduce(kSum, f32, {3, 5}, {1});
  check_reduce(kSum, f32, {2, 3, 7}, {2});
}

TEST_CASE("1.5 a sum over any dimensions, in any layout") {
  for (const Layout layout : kLayouts) {
    check_reduce(kSum, f32, {3, 5}, {0}, layout);
    check_reduce(kSum, f32, {3, 4, 5}, {1}, layout);
    check_reduce(kSum, f32, {3, 4, 5}, {0, 2}, layout);
    check_reduce(kSum, f32, {3, 4, 5}, {0, 1, 2}, layout);
    check_reduce(kSum, f32, {3, 4, 5}, {}, layout);
  }
  check_reduce(kSum, Values::random(f32, {3, 4, 5}), f32, {0, 2}, Layout::contiguous, 1, true);
}

TEST_CASE("1.5 products, squares, extremes, any and all") {
  for (const Kind& kind : {kSquares, kProd, kMax, kMin}) {
    check_reduce(kind, f32, {3, 5}, {1});
    check_reduce(kind, f64, {4, 3, 2}, {0});
    check_reduce(kind, Values::random(f32, {3, 5}, Layout::contiguous, 1, 2), f32, {1}, Layout::contiguous);
    check_reduce(kind, Values::random(f32, {3, 5}, Layout::contiguous, -2, -1), f32, {1}, Layout::contiguous);
  }
  for (const Kind& kind : {kAny, kAll}) {
    check_reduce(kind, Values::random(boolean, {8, 3}, Layout::gaps, 0, 2), boolean, {1}, Layout::gaps);
    check_reduce(kind, Values::random(i32, {8, 2}, Layout::contiguous, -1, 2), boolean, {1},
                 Layout::contiguous);
    check_reduce(kind, Values::random(f32, {8, 2}, Layout::contiguous, 0.1, 0.9), boolean, {1},
                 Layout::contiguous);
    check_reduce(kind, Values::random(i32, {8, 2}, Layout::contiguous, 2, 9), i64, {1}, Layout::contiguous);
  }
}

TEST_CASE("1.5 max and min of values with a NaN are NaN, at any position") {
  for (const Kind& kind : {kMax, kMin}) {
    for (size_t at = 0; at < 5; ++at) {
      Numbers x{3, -1, 2, 7, -5};
      x[at] = NAN;
      Values values = Values::of(f32, {5}, x), out(f32, {});
      const bool flags[] = {true};
      cpu::reduce(kind.fn, out.view(), values.view(), flags);
      expect_close(std::string(kind.name) + " of " + shown(x), out, {NAN});
    }
  }
}

TEST_CASE("1.5 a long sum of f32 is as precise as a short one") {
  const int64_t n = 40000;
  Values x = Values::of(f32, {n}, Numbers(static_cast<size_t>(n), 0.1)), out(f32, {});
  const bool flags[] = {true};
  cpu::reduce(ReduceFn::sum, out.view(), x.view(), flags);
  expect_close("sum of 40000 times 0.1 in f32", out, {static_cast<double>(0.1f) * static_cast<double>(n)},
               {.roundings = 16});
  check_reduce(kSum, Values::random(f64, {999}), f64, {0}, Layout::contiguous);
}

TEST_CASE("1.5 integers are added up in 64 bits") {
  for (const DType dtype : {i8, u8, i32, i64}) {
    const double high = dtype == i32 || dtype == i64 ? 2e9 : 120;
    check_reduce(kSum, Values::random(dtype, {3, 50}, Layout::contiguous, 0, high), i64, {1},
                 Layout::contiguous);
    check_reduce(kMax, Values::random(dtype, {3, 5}, Layout::contiguous, 0, high), dtype, {1},
                 Layout::contiguous);
  }
  check_reduce(kMin, Values::random(i64, {3, 5}, Layout::contiguous, -9e12, -8e12), i64, {1},
               Layout::contiguous);
  check_reduce(kSum, Values::random(boolean, {50}, Layout::contiguous, 0, 2), i64, {0}, Layout::contiguous);
  check_exact(kSum, {kExact}, kExact);
  check_exact(kSum, {kExact - 1, 1}, kExact);
  check_exact(kMax, {5, kExact, -kExact}, kExact);
  check_exact(kMin, {5, kExact, -kExact}, -kExact);
}

TEST_CASE("1.5 sums, squares and products of integers wrap around") {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max(),
                    kLeast = std::numeric_limits<int64_t>::min();
  check_exact(kSum, {kLargest, 1}, kLeast);
  check_exact(kSum, {kLeast, -1}, kLargest);
  check_exact(kProd, {kLargest, 2}, -2);
  check_exact(kSquares, {int64_t{1} << 32, 3}, 9);  // the square of 2^32 is 0 in 64 bits
}

TEST_CASE("1.5 infinities are values like any other") {
  const bool flags[] = {true};
  for (const Kind& kind : {kMax, kMin}) {
    const double far = kind.fn == ReduceFn::max ? -HUGE_VAL : HUGE_VAL;
    for (const DType dtype : {f32, f64}) {
      Values both = Values::of(dtype, {2}, {far, far}), out(dtype, {});
      cpu::reduce(kind.fn, out.view(), both.view(), flags);
      expect_close(std::string(kind.name) + " of " + shown(Numbers{far, far}) + ", " + name_of(dtype), out,
                   {far});
    }
  }
  check_position({-HUGE_VAL, -HUGE_VAL}, true, 0);
  check_position({HUGE_VAL, -HUGE_VAL, HUGE_VAL}, false, 1);
}

TEST_CASE("1.5 a sum divided by its count is a mean") {
  check_reduce(kSum, Values::random(f32, {3, 8}), f32, {1}, Layout::contiguous, 8);
  check_reduce(kSquares, Values::random(f32, {3, 8}), f32, {0}, Layout::contiguous, 3);
  check_reduce(kSum, Values::random(f64, {3, 8}), f64, {1}, Layout::contiguous, 7);
  Values ones = Values::of(f64, {49}, Numbers(49, 1.0)), mean(f64, {});
  const bool flags[] = {true};
  cpu::reduce(ReduceFn::sum, mean.view(), ones.view(), flags, 49);
  expect_equal("mean of 49 ones in f64, by a division, not a product with 1 / 49", mean.numbers()[0], 1.0);
}

TEST_CASE("1.5 the sum of no elements is 0, their product is 1") {
  const bool flags[] = {false, true};
  Values none(f32, {3, 0}), out(f32, {3});
  cpu::reduce(ReduceFn::sum, out.view(), none.view(), flags);
  expect_close("sum of [3, 0] over {1}", out, {0, 0, 0});
  cpu::reduce(ReduceFn::prod, out.view(), none.view(), flags);
  expect_close("prod of [3, 0] over {1}", out, {1, 1, 1});
}

TEST_CASE("1.5 the position of the first extreme") {
  check_position({1, 7, 3}, true, 1);
  check_position({4, 7, 3}, false, 2);
  check_position({-4, -7, -3}, true, 2);
  check_position({2, 9, 9, 1}, true, 1);
  check_position({2, 1, 1, 1}, false, 1);
  check_position({5, NAN, 9, NAN}, true, 1);
  check_position({NAN, 1, NAN}, false, 0);
  Values x = Values::random(f64, {3, 4, 5}, Layout::transposed), out(i64, {3, 5});
  const Numbers v = x.numbers();
  Numbers want(15);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t k = 0; k < 5; ++k) {
      size_t best = 0;
      for (size_t j = 1; j < 4; ++j) best = v[i * 20 + j * 5 + k] > v[i * 20 + best * 5 + k] ? j : best;
      want[i * 5 + k] = static_cast<double>(best);
    }
  }
  cpu::arg_extreme(out.view(), x.view(), 1, true);
  expect_close("argmax of [3, 4, 5] along 1, transposed", out, want);
}

TEST_CASE("1.5 running sums along any dimension") {
  for (const Layout layout : kLayouts) {
    for (const DType dtype : {f32, f64, i32}) {
      for (int dim = 0; dim < 2; ++dim) {
        Values x = Values::random(dtype, {4, 6}, layout, -9, 9);
        Values out(dtype == i32 ? i64 : dtype, {4, 6}, layout);
        Numbers want = x.numbers();
        const size_t step = dim == 0 ? 6 : 1;
        for (size_t i = 0; i < want.size(); ++i) {
          if ((dim == 0 ? i / 6 : i % 6) > 0) want[i] += want[i - step];
        }
        cpu::cumsum(out.view(), x.view(), dim);
        expect_close("cumsum of [4, 6] along " + std::to_string(dim) + ", " + name_of_layout(layout), out,
                     want, {.scale = 54});
      }
    }
  }
  const int64_t n = 40000;
  Values x = Values::of(f32, {n}, Numbers(static_cast<size_t>(n), 0.1)), out(f32, {n});
  Numbers want(static_cast<size_t>(n));
  for (size_t i = 0; i < want.size(); ++i) want[i] = static_cast<double>(0.1f) * static_cast<double>(i + 1);
  cpu::cumsum(out.view(), x.view(), 0);
  expect_close("cumsum of 40000 times 0.1 in f32", out, want);
  check_running_sum({kExact - 1, 1, 1}, {kExact - 1, kExact, kExact + 1}, "exactly");
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  check_running_sum({kLargest, 1}, {kLargest, std::numeric_limits<int64_t>::min()}, "which wraps around");
}
