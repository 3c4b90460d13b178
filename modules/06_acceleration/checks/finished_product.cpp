#include <06_acceleration/checks/matrices.hpp>
#include <tinytorch/backend/cpu/ladder/finished_product.hpp>

using namespace course;
namespace cpu = tinytorch::backend::cpu;
namespace ladder = cpu::ladder;

namespace {

template <class T>
T relu(T x) {
  return x > 0 ? x : T(0);
}
int64_t calls = 0;
template <class T>
T counted(T x) {
  ++calls;
  return x * x + 1;  // f(f(x)) is not f(x)
}

struct Case {
  int64_t M = 1, N = 1, K = 1;
  bool bias = false, by_rows = false, residual = false, fn = false;
  Layout layout = Layout::contiguous;  // of a and b
  std::string text() const {
    return "finished_product of " + sizes_text(M, N, K) +
           (bias ? by_rows ? ", a bias for each row" : ", a bias for each column" : "") +
           (residual ? ", a residual" : "") + (fn ? ", a function" : "") + ", " + name_of_layout(layout);
  }
};

// The result has the bits of the product, followed by each step over all of it.
template <class T>
void check_finished(const Case& c) {
  Grid<T> a(c.M, c.K, c.layout), b(c.K, c.N, c.layout), out(c.M, c.N), plain(c.M, c.N),
      residual(c.M, c.N + 4);
  a.fill(), b.fill(), residual.fill();
  Grid<T> bias(1, std::max(c.M, c.N));
  bias.fill();
  ladder::product<T>(plain.data(), plain.row, {a.data(), a.row, a.col}, {b.data(), b.row, b.col}, c.M, c.N,
                     c.K, 1);
  ladder::TileEpilogue<T> f;
  if (c.bias) f.bias = bias.data(), f.by_rows = c.by_rows;
  if (c.residual) f.residual = residual.data(), f.residual_row = residual.row;
  if (c.fn) f.fn = &counted<T>;
  calls = 0;
  ladder::finished_product<T>(out.data(), out.row, {a.data(), a.row, a.col}, {b.data(), b.row, b.col}, c.M,
                              c.N, c.K, f);
  expect_equal(c.text() + ": the function is called once for each sum", calls, c.fn ? c.M * c.N : 0);
  for (int64_t m = 0; m < c.M; ++m) {
    for (int64_t n = 0; n < c.N; ++n) {
      T want = plain.at(m, n);
      if (c.bias) want += bias.at(0, c.by_rows ? m : n);
      if (c.residual) want += residual.at(m, n);
      if (c.fn) want = counted(want);
      const std::string where = ": the bits of element [" + shown(m) + ", " + shown(n) + "]";
      expect_equal(c.text() + where, out.at(m, n), want);
      out.at(m, n) = Grid<T>::other();
    }
  }
  for (const T x : out.memory) {
    if (x == x) expect(c.text() + ": memory outside of the result is as it was", false);
  }
}

}  // namespace

TEST_CASE("6.6 nothing to finish: the product itself") {
  for (const int64_t n : {1, 6, 7, 31}) check_finished<float>({.M = n, .N = n + 2, .K = 5});
  check_finished<double>({.M = 7, .N = 19, .K = 31});
}

TEST_CASE("6.6 a bias for each column, or for each row") {
  for (const bool by_rows : {false, true}) {
    check_finished<float>({.M = 13, .N = 37, .K = 9, .bias = true, .by_rows = by_rows});
    check_finished<float>({.M = 37, .N = 13, .K = 9, .bias = true, .by_rows = by_rows});
    check_finished<double>({.M = 8, .N = 8, .K = 3, .bias = true, .by_rows = by_rows});
  }
}

TEST_CASE("6.6 a residual with rows of its own width") {
  check_finished<float>({.M = 13, .N = 37, .K = 9, .residual = true});
  check_finished<float>({.M = 20, .N = 3, .K = 2, .bias = true, .residual = true});
}

TEST_CASE("6.6 the function comes last, and once for each sum") {
  check_finished<float>({.M = 13, .N = 37, .K = 9, .fn = true});
  check_finished<float>(
      {.M = 13, .N = 37, .K = 9, .bias = true, .by_rows = true, .residual = true, .fn = true});
  check_finished<double>({.M = 1, .N = 1, .K = 1, .bias = true, .residual = true, .fn = true});
}

TEST_CASE("6.6 a sum is finished after the last block of the depth") {
  const int64_t depth = ladder::kDepthOfBlock;
  for (const int64_t K : {depth - 1, depth, depth + 1, 2 * depth, 3 * depth + 5})
    check_finished<float>({.M = 7, .N = 9, .K = K, .bias = true, .residual = true, .fn = true});
}

TEST_CASE("6.6 several blocks of rows and of columns, and operands in any layout") {
  check_finished<float>(
      {.M = ladder::kRowsOfBlock + 7, .N = 5, .K = 4, .bias = true, .by_rows = true, .fn = true});
  check_finished<float>({.M = 3, .N = ladder::kColsOfBlock + 3, .K = 2, .bias = true, .residual = true});
  for (const Layout layout : kLayouts)
    check_finished<float>({.M = 13, .N = 21, .K = 19, .bias = true, .fn = true, .layout = layout});
}

TEST_CASE("6.6 no terms: zeros are finished, and an empty result needs nothing") {
  check_finished<float>({.M = 3, .N = 4, .K = 0, .bias = true, .residual = true, .fn = true});
  check_finished<float>({.M = 0, .N = 4, .K = 3, .bias = true, .fn = true});
  check_finished<float>({.M = 4, .N = 0, .K = 0, .fn = true});
}

TEST_CASE("6.6 relu of NaN is what the function makes of it, and infinity stays") {
  float c[2];
  const float a[2] = {std::numeric_limits<float>::infinity(), -1}, b[1] = {2};
  ladder::finished_product<float>(c, 1, {a, 1, 1}, {b, 1, 1}, 2, 1, 1, {.fn = &relu<float>});
  expect("relu(inf * 2) is infinity", std::isinf(c[0]) && c[0] > 0);
  expect_equal("relu(-1 * 2)", c[1], 0.0f);
}
