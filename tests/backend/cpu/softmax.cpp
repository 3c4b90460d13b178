#include <support/array.hpp>

#include <tinytorch/backend/cpu/softmax.hpp>
#include <tinytorch/core/parallel.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

namespace {

struct Lines {
  std::vector<size_t> at;  // positions of one line along dim
};
std::vector<Lines> lines_of(const Shape& shape, int dim) {
  int64_t inner = 1;
  for (int d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  std::vector<Lines> lines;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    if (i / inner % shape[dim] != 0) continue;
    Lines line;
    for (int64_t k = 0; k < shape[dim]; ++k) line.at.push_back(static_cast<size_t>(i + k * inner));
    lines.push_back(line);
  }
  return lines;
}

double log_sum_exp(const std::vector<double>& x, const Lines& line) {
  double top = -INFINITY;
  long double sum = 0;  // the error of 100,000 terms in double would exceed the tolerance
  for (size_t i : line.at) top = std::max(top, x[i]);
  for (size_t i : line.at) sum += std::exp(x[i] - top);
  return top + static_cast<double>(std::log(sum));
}

void check_shape(const Shape& shape, int dim, DType dtype, Layout layout) {
  Array x = Array::random(dtype, shape, 1, -20, 20, layout),
        dy = Array::random(dtype, shape, 2, -1, 1, layout);
  Array y(dtype, shape), log_y(dtype, shape), dx(dtype, shape), log_dx(dtype, shape);
  kernels::softmax(y.view(), x.view(), dim);
  kernels::log_softmax(log_y.view(), x.view(), dim);
  kernels::softmax_grad(dx.view(), dy.view(), y.view(), dim);
  kernels::log_softmax_grad(log_dx.view(), dy.view(), log_y.view(), dim);
  const std::vector<double> in = x.values(), g = dy.values(), out = y.values(), log_out = log_y.values();
  std::vector<double> want(in.size()), want_log(in.size()), want_dx(in.size()), want_log_dx(in.size());
  for (const Lines& line : lines_of(shape, dim)) {
    const double total = log_sum_exp(in, line);
    double dot = 0, sum = 0;
    for (size_t i : line.at) {
      want[i] = std::exp(in[i] - total);
      want_log[i] = in[i] - total;
      dot += g[i] * out[i];
      sum += g[i];
    }
    for (size_t i : line.at) {
      want_dx[i] = out[i] * (g[i] - dot);
      want_log_dx[i] = g[i] - std::exp(log_out[i]) * sum;
    }
  }
  const double steps = 64 + 2 * std::sqrt(static_cast<double>(shape[dim]));
  check_close(out, want, dtype, steps, 0.1);
  check_close(log_out, want_log, dtype, 8, 20);
  check_close(dx.values(), want_dx, dtype, steps);
  check_close(log_dx.values(), want_log_dx, dtype, steps, 10);
}

}  // namespace

TEST_CASE("softmax, log_softmax and their gradients equal the definition along every dimension") {
  for (DType dtype : kFloating) {
    for (int dim = 0; dim < 3; ++dim) {
      check_shape({3, 5, 7}, dim, dtype, Layout::dense);
      check_shape({3, 5, 7}, dim, dtype, Layout::gaps);
    }
    for (int64_t n : {1, 2, 10, 31, 32, 33, 63, 64, 65, 127, 1000})
      check_shape({5, n}, 1, dtype, Layout::dense);
    check_shape({130, 10}, 1, dtype, Layout::dense);  // more short rows than a tile has
    check_shape({3, 130}, 0, dtype, Layout::dense);   // more columns than a strip has
    check_shape({2, 4, 65}, 1, dtype, Layout::dense);
  }
  check_shape({2, 50257}, 1, f32, Layout::dense);
  for (const DType dtype : {f32, f64, bf16}) {  // rows that threads share, with remainders of any length
    for (const int64_t n : {16384, 16385, 98'305, 131'071}) check_shape({1, n}, 1, dtype, Layout::dense);
  }
  check_shape({3, 98'305}, 1, f32, Layout::gaps);
}

TEST_CASE("a long row gives the same bits at any thread count") {
  const Shape shape{1, 200'003};
  Array x = Array::random(f32, shape, 1, -20, 20), dy = Array::random(f32, shape, 2, -1, 1);
  std::vector<std::vector<double>> first;
  const int before = tinytorch::thread_count();
  for (int threads : {1, 2, 5}) {
    tinytorch::set_thread_count(threads);
    Array y(f32, shape), log_y(f32, shape), dx(f32, shape), log_dx(f32, shape);
    kernels::softmax(y.view(), x.view(), 1);
    kernels::log_softmax(log_y.view(), x.view(), 1);
    kernels::softmax_grad(dx.view(), dy.view(), y.view(), 1);
    kernels::log_softmax_grad(log_dx.view(), dy.view(), log_y.view(), 1);
    const std::vector<std::vector<double>> got{y.values(), log_y.values(), dx.values(), log_dx.values()};
    if (threads == 1) first = got;
    CHECK(got == first);
  }
  tinytorch::set_thread_count(before);
}

TEST_CASE("a million values are as accurate as a few, along rows and columns, of one sign and of both") {
  for (const bool columns : {false, true}) {
    const Shape shape = columns ? Shape{333'334, 3} : Shape{1, 1'000'003};
    const int dim = columns ? 0 : 1;
    for (const double low : {-1.0, 0.0}) {
      Array x = Array::random(f32, shape, 1, -1, 1), dy = Array::random(f32, shape, 2, low, 1);
      Array y(f32, shape), log_y(f32, shape), dx(f32, shape), log_dx(f32, shape);
      kernels::softmax(y.view(), x.view(), dim);
      kernels::log_softmax(log_y.view(), x.view(), dim);
      kernels::softmax_grad(dx.view(), dy.view(), y.view(), dim);
      kernels::log_softmax_grad(log_dx.view(), dy.view(), log_y.view(), dim);
      const std::vector<double> in = x.values(), g = dy.values(), out = y.values(), log_out = log_y.values(),
                                got = dx.values(), log_got = log_dx.values();
      for (const Lines& line : lines_of(shape, dim)) {
        const double total = log_sum_exp(in, line);
        double dot = 0, dot_size = 0, sum = 0, size = 0, worst[4] = {};
        for (size_t i : line.at) {
          dot += g[i] * out[i], dot_size += std::abs(g[i] * out[i]);
          sum += g[i], size += std::abs(g[i]);
        }
        const auto note = [&](int k, double error, double scale) {
          worst[k] = std::max(worst[k], std::abs(error) / scale);
        };
        for (size_t i : line.at) {
          note(0, out[i] - std::exp(in[i] - total), std::exp(in[i] - total));
          note(1, log_out[i] - (in[i] - total), 16);
          note(2, got[i] - out[i] * (g[i] - dot), out[i] * (std::abs(g[i]) + dot_size));
          const double p = std::exp(log_out[i]);
          note(3, log_got[i] - (g[i] - p * sum), std::abs(g[i]) + p * size);
        }
        for (int k = 0; k < 4; ++k) CHECK(worst[k] <= 4e-7);
      }
    }
  }
}

TEST_CASE("softmax of rows with infinities and NaN") {
  for (int64_t n : {3, 40, 100}) {
    for (int dim : {0, 1}) {
      std::vector<double> values(static_cast<size_t>(4 * n), 0.5);
      const auto at = [&](int64_t row, int64_t i) {
        return static_cast<size_t>(dim == 1 ? row * n + i : i * 4 + row);
      };
      for (int64_t i = 0; i < n; ++i) values[at(0, i)] = -INFINITY;
      values[at(1, 0)] = -INFINITY;
      values[at(2, n - 1)] = NAN;
      values[at(3, 1)] = INFINITY;
      const Shape shape = dim == 1 ? Shape{4, n} : Shape{n, 4};
      Array x = Array::from(f32, shape, values), y(f32, shape), log_y(f32, shape), sums(f32, {4});
      kernels::softmax(y.view(), x.view(), dim);
      kernels::log_softmax(log_y.view(), x.view(), dim);
      const bool reduced[] = {dim == 0, dim == 1};
      kernels::logsumexp(sums.view(), x.view(), reduced);
      for (int64_t i = 0; i < n; ++i) {
        CHECK(std::isnan(y.values()[at(0, i)]));
        CHECK(std::isnan(log_y.values()[at(0, i)]));
        CHECK(std::isnan(y.values()[at(2, i)]));
        const double expected = i == 0 ? 0.0 : 1.0 / static_cast<double>(n - 1);
        CHECK(y.values()[at(1, i)] == doctest::Approx(expected));
      }
      CHECK(log_y.values()[at(1, 0)] == -INFINITY);
      CHECK(sums.values()[0] == -INFINITY);
      CHECK(sums.values()[1] == doctest::Approx(0.5 + std::log(static_cast<double>(n - 1))));
      CHECK(std::isnan(sums.values()[2]));
      CHECK(sums.values()[3] == INFINITY);
    }
  }
}

TEST_CASE("logsumexp over any dimensions equals the definition") {
  for (DType dtype : kFloating) {
    for (int mask = 0; mask < 8; ++mask) {
      const bool reduced[] = {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0};
      const Shape shape{5, 3, 17};
      Shape kept;
      for (int d = 0; d < 3; ++d) {
        if (!reduced[d]) kept.push_back(shape[d]);
      }
      Array x = Array::random(dtype, shape, 1, -90, 90, Layout::gaps), out(dtype, kept);
      kernels::logsumexp(out.view(), x.view(), reduced);
      const std::vector<double> in = x.values();
      std::vector<Lines> groups(static_cast<size_t>(kept.numel()));
      for (int64_t i = 0; i < shape.numel(); ++i) {
        const int64_t index[] = {i / 51, i / 17 % 3, i % 17};
        int64_t at = 0;
        for (int d = 0; d < 3; ++d) {
          if (!reduced[d]) at = at * shape[d] + index[d];
        }
        groups[static_cast<size_t>(at)].at.push_back(static_cast<size_t>(i));
      }
      std::vector<double> want;
      for (const Lines& g : groups) want.push_back(log_sum_exp(in, g));
      check_close(out.values(), want, dtype, 16);
    }
  }
}
