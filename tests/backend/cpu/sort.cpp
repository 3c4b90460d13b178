// Sorted rows against std::stable_sort: every dtype, ties, both zeros, NaN, strides, first elements, threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <tinytorch/backend/cpu/sort.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

namespace {

// Positions in sorted order: stable, NaN largest.
template <class T>
std::vector<int64_t> sorted_positions(const T* row, int64_t n, int64_t step, bool descending) {
  const auto value = [&](int64_t i) { return static_cast<double>(row[i * step]); };
  const auto less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  std::vector<int64_t> at(static_cast<size_t>(n));
  std::iota(at.begin(), at.end(), 0);
  std::stable_sort(at.begin(), at.end(), [&](int64_t i, int64_t j) {
    return descending ? less(value(j), value(i)) : less(value(i), value(j));
  });
  return at;
}

// Sorts x [rows, n], elements `step` apart, and compares the first k of every row.
template <class T>
void check_sorted(const std::vector<T>& x, int64_t rows, int64_t n, int64_t step, int64_t k) {
  CAPTURE(rows);
  CAPTURE(n);
  CAPTURE(k);
  const auto t = tt::dtype_of<T>;
  for (const bool descending : {false, true}) {
    std::vector<T> values(static_cast<size_t>(rows * k));
    std::vector<int64_t> order(values.size());
    const View in{const_cast<T*>(x.data()), t, {rows, n}, {n * step, step}};
    cpu::sort_rows({values.data(), t, {rows, k}, {k, 1}}, {order.data(), tt::i64, {rows, k}, {k, 1}}, in, k,
                   descending);
    int64_t wrong = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const T* const row = x.data() + r * n * step;
      const std::vector<int64_t> at = sorted_positions(row, n, step, descending);
      for (int64_t i = 0; i < k; ++i) {
        wrong += order[static_cast<size_t>(r * k + i)] != at[static_cast<size_t>(i)];
        wrong += std::memcmp(&values[static_cast<size_t>(r * k + i)], &row[at[static_cast<size_t>(i)] * step],
                             sizeof(T)) != 0;  // also the sign of zero and the bits of NaN
      }
    }
    CHECK(wrong == 0);
  }
}

template <class T>
std::vector<T> random_values(int64_t n, double spread, uint64_t seed) {
  tt::Generator g(seed);
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) {
    const double u = g.uniform(-1, 1) * spread;
    x = static_cast<T>(std::is_unsigned_v<T> ? std::abs(u) : u);
  }
  return v;
}

}  // namespace

TEST_CASE("sort_rows is stable, and NaN is the largest value") {
  std::vector<float> x{3, NAN, 1, 3, -INFINITY, INFINITY, 1};
  std::vector<float> values(7);
  std::vector<int64_t> order(7);
  const View in{x.data(), tt::f32, {1, 7}, {7, 1}};
  cpu::sort_rows({values.data(), tt::f32, {1, 7}, {7, 1}}, {order.data(), tt::i64, {1, 7}, {7, 1}}, in, 7,
                 false);
  CHECK(order == std::vector<int64_t>{4, 2, 6, 0, 3, 5, 1});
  cpu::sort_rows({values.data(), tt::f32, {1, 3}, {3, 1}}, {order.data(), tt::i64, {1, 3}, {3, 1}}, in, 3,
                 true);
  CHECK(std::vector<int64_t>(order.begin(), order.begin() + 3) == std::vector<int64_t>{1, 5, 0});
  CHECK(values[1] == INFINITY);
}

TEST_CASE_TEMPLATE("rows of all lengths, with few and with many distinct values", T, float, double, int32_t,
                   int64_t, int8_t, uint8_t, tt::BFloat16, tt::Half) {
  for (const int64_t n : {1, 2, 63, 64, 65, 66, 1000, 5000}) {
    for (const double spread : {3.0, 100.0}) {  // few distinct integers give many ties
      const int64_t rows = n < 100 ? 7 : 2;
      const std::vector<T> x = random_values<T>(rows * n * 3, spread, static_cast<uint64_t>(n));
      check_sorted(x, rows, n, 1, n);
      check_sorted(x, rows, n, 3, n);
      check_sorted(x, rows, n, 1, (n + 1) / 2);
      check_sorted(x, rows, n, 1, std::max<int64_t>(1, n / 10));
    }
  }
}

TEST_CASE_TEMPLATE("the smallest and the largest value of a type", T, int32_t, int64_t, int8_t, uint8_t) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x;
  for (int i = 0; i < 40; ++i) {
    for (const T v : {Limits::max(), Limits::min(), T(0), T(1), T(Limits::max() - 1), T(Limits::min() + 1)})
      x.push_back(v);
  }
  std::vector<int64_t> order(x.size());
  std::vector<T> values(x.size());
  const auto n = static_cast<int64_t>(x.size());
  const auto t = tt::dtype_of<T>;
  cpu::sort_rows({values.data(), t, {1, n}, {n, 1}}, {order.data(), tt::i64, {1, n}, {n, 1}},
                 {x.data(), t, {1, n}, {n, 1}}, n, false);
  std::vector<T> expected = x;
  std::stable_sort(expected.begin(), expected.end());
  CHECK(values == expected);
  for (size_t i = 1; i < order.size(); ++i)
    if (values[i - 1] == values[i]) CHECK(order[i - 1] < order[i]);
}

TEST_CASE_TEMPLATE("zeros of both signs are equal and keep their sign; NaN keep their order", T, float,
                   double) {
  for (const int64_t n : {40, 3000}) {
    tt::Generator g(static_cast<uint64_t>(n));
    const T special[] = {T(0),
                         -T(0),
                         std::numeric_limits<T>::quiet_NaN(),
                         -std::numeric_limits<T>::quiet_NaN(),
                         std::numeric_limits<T>::infinity(),
                         -std::numeric_limits<T>::infinity(),
                         std::numeric_limits<T>::denorm_min(),
                         -std::numeric_limits<T>::denorm_min(),
                         std::numeric_limits<T>::max(),
                         std::numeric_limits<T>::lowest()};
    std::vector<T> x;
    for (int64_t i = 0; i < n; ++i) x.push_back(special[static_cast<size_t>(g.uniform(0, 10))]);
    check_sorted(x, 1, n, 1, n);
    check_sorted(x, 1, n, 1, n / 10);  // top_k of a row with NaN
    check_sorted(x, 1, n, 1, n / 2);
  }
}

TEST_CASE("several threads sort a long row to the same order") {
  for (const int threads : {1, 2, 5}) {
    tt::set_thread_count(threads);
    for (const double spread : {1e6, 5.0}) {
      const int64_t n = 300'001;
      const std::vector<int32_t> whole = random_values<int32_t>(n, spread, 9);
      check_sorted(whole, 1, n, 1, n);
      std::vector<float> x;
      for (const int32_t v : whole) x.push_back(static_cast<float>(v) / 7);
      check_sorted(x, 1, n, 1, n);
      check_sorted(x, 3, n / 3, 1, n / 4);
    }
  }
}

TEST_CASE("empty rows and k = 0") {
  std::vector<float> none(1, 5.0f);
  std::vector<int64_t> at(1, 7);
  cpu::sort_rows({none.data(), tt::f32, {0, 3}, {3, 1}}, {at.data(), tt::i64, {0, 3}, {3, 1}},
                 {none.data(), tt::f32, {0, 3}, {3, 1}}, 3, false);
  cpu::sort_rows({none.data(), tt::f32, {1, 0}, {0, 1}}, {at.data(), tt::i64, {1, 0}, {0, 1}},
                 {none.data(), tt::f32, {1, 1}, {1, 1}}, 0, false);
  CHECK(none[0] == 5.0f);
  CHECK(at[0] == 7);
}
