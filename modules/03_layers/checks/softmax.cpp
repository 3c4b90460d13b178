#include <support/check.hpp>
#include <tinytorch/backend/cpu/softmax.hpp>

using namespace course;
namespace cpu = tinytorch::backend::cpu;

namespace {

constexpr DType kFloating[] = {f32, f64, bf16, f16};

// Calls f(positions of the elements of a row) for every row along dim.
template <class F>
void for_each_line(const Shape& shape, int dim, F&& f) {
  int64_t inner = 1;
  for (int d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  const int64_t n = shape[dim];
  for (int64_t line = 0; n > 0 && line < shape.numel() / n; ++line) {
    std::vector<size_t> places;
    for (int64_t i = 0; i < n; ++i)
      places.push_back(static_cast<size_t>(line / inner * n * inner + i * inner + line % inner));
    f(places);
  }
}
double log_sum_exp(const Numbers& x, const std::vector<size_t>& row) {
  double largest = -HUGE_VAL, sum = 0;
  for (size_t i : row) largest = std::max(largest, x[i]);
  for (size_t i : row) sum += std::exp(x[i] - largest);
  return largest + std::log(sum);
}
Numbers softmax_reference(const Numbers& x, const Shape& shape, int dim, bool logarithm) {
  Numbers y(x.size());
  for_each_line(shape, dim, [&](const std::vector<size_t>& row) {
    const double lse = log_sum_exp(x, row);
    for (size_t i : row) y[i] = logarithm ? x[i] - lse : std::exp(x[i] - lse);
  });
  return y;
}
std::string call(const char* name, const Shape& shape, int dim, Layout layout) {
  return std::string(name) + " of " + shape.str() + " along " + std::to_string(dim) + ", " +
         name_of_layout(layout);
}

void check_forward(DType dtype, const Shape& shape, int dim, Layout layout, double reach, bool logarithm) {
  Values x = Values::random(dtype, shape, layout, -reach, reach), y(dtype, shape, layout);
  (logarithm ? cpu::log_softmax : cpu::softmax)(y.view(), x.view(), dim);
  expect_close(call(logarithm ? "log_softmax" : "softmax", shape, dim, layout), y,
               softmax_reference(x.numbers(), shape, dim, logarithm),
               {.roundings = 16, .scale = logarithm ? 1 + reach : 0.02});
}
void check_backward(DType dtype, const Shape& shape, int dim, Layout layout, bool logarithm) {
  Values dy = Values::random(dtype, shape, layout), dx(dtype, shape, layout);
  const Numbers x = Values::random(f64, shape, Layout::contiguous, -2, 2).numbers();
  Values y = Values::of(dtype, shape, softmax_reference(x, shape, dim, logarithm));
  const Numbers g = dy.numbers(), result = y.numbers();
  Numbers want(g.size());
  for_each_line(shape, dim, [&](const std::vector<size_t>& row) {
    double sum = 0;
    for (size_t i : row) sum += logarithm ? g[i] : g[i] * result[i];
    for (size_t i : row) want[i] = logarithm ? g[i] - std::exp(result[i]) * sum : result[i] * (g[i] - sum);
  });
  (logarithm ? cpu::log_softmax_grad : cpu::softmax_grad)(dx.view(), dy.view(), y.view(), dim);
  expect_close(call(logarithm ? "log_softmax_grad" : "softmax_grad", shape, dim, layout), dx, want,
               {.roundings = 16, .scale = 1});
}

}  // namespace

TEST_CASE("3.3 softmax of a short row") {
  Values x = Values::of(f32, {1, 3}, {0, std::log(2.0), std::log(5.0)}), y(f32, {1, 3});
  cpu::softmax(y.view(), x.view(), 1);
  expect_close("softmax of [0, log 2, log 5]", y, {0.125, 0.25, 0.625});
  for (const DType dtype : {f32, f64}) check_forward(dtype, {4, 37}, 1, Layout::contiguous, 3, false);
}

TEST_CASE("3.3 softmax of large numbers") {
  check_forward(f32, {3, 5}, 1, Layout::contiguous, 1e4, false);
  Values x = Values::of(f32, {1, 3}, {1000, 1000, -1000}), y(f32, {1, 3});
  cpu::softmax(y.view(), x.view(), 1);
  expect_close("softmax of [1000, 1000, -1000]", y, {0.5, 0.5, 0});
  Values low = Values::of(f32, {1, 3}, {-1000, -1001, -HUGE_VAL});
  cpu::softmax(y.view(), low.view(), 1);
  expect_close("softmax of [-1000, -1001, -inf]", y, {1 / (1 + std::exp(-1.0)), 1 / (1 + std::exp(1.0)), 0});
}

TEST_CASE("3.3 softmax along any dimension, in any layout and dtype") {
  for (const DType dtype : kFloating) {
    for (const Layout layout : kLayouts) {
      for (int dim = 0; dim < 3; ++dim) check_forward(dtype, {3, 7, 2}, dim, layout, 4, false);
    }
  }
  check_forward(f32, {1}, 0, Layout::contiguous, 4, false);
  check_forward(f32, {3, 0}, 1, Layout::contiguous, 4, false);
}

TEST_CASE("3.3 log_softmax is finite where softmax underflows to 0") {
  for (const DType dtype : kFloating) check_forward(dtype, {3, 11}, 1, Layout::contiguous, 4, true);
  for (const Layout layout : kLayouts) check_forward(f64, {3, 7, 2}, 1, layout, 4, true);
  Values x = Values::of(f32, {1, 2}, {0, -500}), y(f32, {1, 2});
  cpu::log_softmax(y.view(), x.view(), 1);
  expect_close("log_softmax of [0, -500]", y, {0, -500});
  Values big = Values::of(f32, {1, 2}, {5000, 5000});
  cpu::log_softmax(y.view(), big.view(), 1);
  expect_close("log_softmax of [5000, 5000]", y, {-std::log(2.0), -std::log(2.0)});
}

TEST_CASE("3.3 a long row loses no precision") {
  constexpr int64_t kLength = 20000;
  Values x = Values::random(f32, {1, kLength}, Layout::contiguous, -0.5, 0.5), y(f32, {1, kLength});
  cpu::softmax(y.view(), x.view(), 1);
  expect_close("softmax of [1, 20000]", y, softmax_reference(x.numbers(), {1, kLength}, 1, false),
               {.roundings = 8, .scale = 0});
  // One large term, and many that are too small to be added to it one by one in f32: 1e-3 of the sum would be
  // lost. The tolerance is half of that, which a sum in a few lanes meets.
  Numbers row(kLength, std::log(0.9 * std::ldexp(1.0, -24)));
  row[0] = 0;
  Values uneven = Values::of(f32, {1, kLength}, row);
  cpu::softmax(y.view(), uneven.view(), 1);
  expect_close("softmax of 0 and 19999 times log(0.9 * 2^-24)", y,
               softmax_reference(uneven.numbers(), {1, kLength}, 1, false), {.roundings = 4000, .scale = 0});
}

TEST_CASE("3.3 gradients of softmax and log_softmax") {
  for (const bool logarithm : {false, true}) {
    check_backward(f64, {1, 3}, 1, Layout::contiguous, logarithm);
    for (const DType dtype : kFloating) check_backward(dtype, {4, 9}, 1, Layout::contiguous, logarithm);
    for (const Layout layout : kLayouts) check_backward(f64, {3, 5, 2}, 1, layout, logarithm);
  }
}

TEST_CASE("3.3 a result may be written over its operand") {
  Values x = Values::random(f32, {3, 5});
  const Numbers want = softmax_reference(x.numbers(), {3, 5}, 0, false);
  cpu::softmax(x.view(), x.view(), 0);
  expect_close("softmax of [3, 5] along 0, in place", x, want, {.roundings = 16});
}

TEST_CASE("3.3 log-sum-exp over any dimensions, of infinities and of no elements") {
  const bool both[] = {true, true}, first[] = {true, false};
  const auto of = [&](const Numbers& numbers) {
    Values x = Values::of(f64, {1, static_cast<int64_t>(numbers.size())}, numbers), out(f64, {});
    cpu::logsumexp(out.view(), x.view(), both);
    return out.numbers()[0];
  };
  expect_close("logsumexp of [0, 0, 0]", {of({0, 0, 0})}, {std::log(3.0)}, {}, {.dtype = f64});
  expect_close("logsumexp of [1000, 1000]", {of({1000, 1000})}, {1000 + std::log(2.0)}, {}, {.dtype = f64});
  expect_close("logsumexp of [-inf, -inf]", {of({-HUGE_VAL, -HUGE_VAL})}, {-HUGE_VAL}, {}, {.dtype = f64});
  expect_close("logsumexp of [1, inf]", {of({1, HUGE_VAL})}, {HUGE_VAL}, {}, {.dtype = f64});
  expect_close("logsumexp of nothing", {of({})}, {-HUGE_VAL}, {}, {.dtype = f64});
  for (const Layout layout : kLayouts) {
    Values x = Values::random(f32, {5, 3}, layout), out(f32, {3});
    const Numbers numbers = x.numbers();
    Numbers want;
    for_each_line({5, 3}, 0,
                  [&](const std::vector<size_t>& row) { want.push_back(log_sum_exp(numbers, row)); });
    cpu::logsumexp(out.view(), x.view(), first);
    expect_close("logsumexp of [5, 3] over dimension 0, " + std::string(name_of_layout(layout)), out, want,
                 {.roundings = 8, .scale = 2});
  }
}
