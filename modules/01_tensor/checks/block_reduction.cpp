#include <01_tensor/checks/reference.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

using namespace course;
using backend::ReduceFn;
namespace cuda = backend::cuda;

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

using Which = std::vector<int>;  // the reduced dimensions

void check_reduce(const Kind& kind, Values x, DType result, const Which& which, Layout layout,
                  double divisor = 1) {
  bool flags[kMaxRank] = {};
  std::string along;
  for (int d : which) {
    flags[d] = true;
    along += (along.empty() ? "" : ", ") + std::to_string(d);
  }
  Shape to;
  for (int d = 0; d < x.shape().size(); ++d) {
    if (!flags[d]) to.push_back(x.shape()[d]);
  }
  Values on = std::move(x).on_device(), out = Values(result, to).on_device();
  Reduced want = reduced(on.numbers(), on.shape(), flags, kind.start, kind.join);
  for (double& v : want.values) v /= divisor;
  cuda::reduce(kind.fn, out.view(), on.view(), flags, divisor);
  expect_close(std::string(kind.name) + " of " + name_of(on.dtype()) + " " + on.shape().str() + " over {" +
                   along + "}, " + name_of_layout(layout),
               out, want.values, {.scale = want.scale});
}
void check_reduce(const Kind& kind, DType dtype, const Shape& shape, const Which& which,
                  Layout layout = Layout::contiguous) {
  check_reduce(kind, Values::random(dtype, shape, layout, -3, 3), dtype, which, layout);
}

}  // namespace

TEST_CASE("1.10 the sum of a block's values") {
  check_reduce(kSum, Values::of(f32, {4}, {1, 2, 3, 4}), f32, {0}, Layout::contiguous);
  for (const int64_t n : {1, 31, 32, 33, 64, 100, 255, 256}) check_reduce(kSum, f32, {n}, {0});
}

TEST_CASE("1.10 more values than threads") {
  for (const int64_t n : {257, 511, 513, 3000}) check_reduce(kSum, f32, {n}, {0});
}

TEST_CASE("1.10 a block for each result") {
  check_reduce(kSum, f32, {3, 5}, {1});
  check_reduce(kSum, f32, {7, 300}, {1});
  check_reduce(kSum, f32, {70, 3}, {0});
}

TEST_CASE("1.10 a sum over any dimensions, in any layout") {
  for (const Layout layout : kLayouts) {
    check_reduce(kSum, f32, {3, 4, 5}, {1}, layout);
    check_reduce(kSum, f32, {3, 4, 5}, {0, 2}, layout);
    check_reduce(kSum, f32, {3, 11, 10}, {0, 1, 2}, layout);
  }
}

TEST_CASE("1.10 products, squares, extremes, any and all") {
  for (const Kind& kind : {kSquares, kProd, kMax, kMin}) {
    check_reduce(kind, f32, {3, 40}, {1});
    check_reduce(kind, Values::random(f64, {3, 40}, Layout::contiguous, 0.5, 1.5), f64, {1},
                 Layout::contiguous);
    check_reduce(kind, Values::random(f32, {5}, Layout::contiguous, -2, -1), f32, {0}, Layout::contiguous);
  }
  for (const Kind& kind : {kAny, kAll}) {
    check_reduce(kind, Values::random(boolean, {8, 3}, Layout::gaps, 0, 2), boolean, {1}, Layout::gaps);
    check_reduce(kind, Values::random(f32, {4, 40}, Layout::contiguous, 0.1, 0.9), boolean, {1},
                 Layout::contiguous);
  }
}

TEST_CASE("1.10 max and min of values with a NaN are NaN, whichever thread reads it") {
  for (const Kind& kind : {kMax, kMin}) {
    for (const size_t at : {0, 1, 17, 33, 64, 99}) {
      Numbers x(100, 2.0);
      x[at] = NAN;
      Values values = Values::of(f32, {100}, x).on_device(), out = Values(f32, {}).on_device();
      const bool flags[] = {true};
      cuda::reduce(kind.fn, out.view(), values.view(), flags);
      expect_close(
          std::string(kind.name) + " of 100 values, of which value " + std::to_string(at) + " is NaN", out,
          {NAN});
    }
  }
}

TEST_CASE("1.10 every dtype: floating values are added up in double, integers in 64 bits") {
  for (const DType dtype : {bf16, f16, f64}) check_reduce(kSum, dtype, {2, 70}, {1});
  for (const DType dtype : {i8, u8, i32, i64}) {
    const double high = dtype == i32 || dtype == i64 ? 2e9 : 120;
    check_reduce(kSum, Values::random(dtype, {2, 50}, Layout::contiguous, 0, high), i64, {1},
                 Layout::contiguous);
    check_reduce(kMax, Values::random(dtype, {2, 5}, Layout::contiguous, 0, high), dtype, {1},
                 Layout::contiguous);
  }
  check_reduce(kMin, Values::random(i64, {2, 5}, Layout::contiguous, -9e12, -8e12), i64, {1},
               Layout::contiguous);
  const int64_t n = 10000;
  check_reduce(kSum, Values::of(f32, {n}, Numbers(static_cast<size_t>(n), 0.1)), f32, {0},
               Layout::contiguous);
}

TEST_CASE("1.10 sums can be divided, and the sum of no elements is 0") {
  check_reduce(kSum, Values::random(f32, {3, 80}), f32, {1}, Layout::contiguous, 80);
  check_reduce(kSum, f32, {3, 0}, {1});
  check_reduce(kProd, f32, {3, 0}, {1});
  check_reduce(kSum, f32, {0, 3}, {1});
}
