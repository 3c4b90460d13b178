// Index kernels called directly, with duplicate indices, types of every size, and threads.
#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <tinytorch/backend/cpu/index.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

TEST_CASE("take_rows copies whole rows, any element size") {
  const int64_t index[] = {2, 0, 2};
  const View at{const_cast<int64_t*>(index), tt::i64, {3}, {1}};
  const auto check = [&]<class T>(T) {
    std::vector<T> x(2 * 3 * 2), out(2 * 3 * 2);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i);
    const auto t = tt::dtype_of<T>;
    cpu::take_rows({out.data(), t, {2, 3, 2}, {6, 2, 1}}, {x.data(), t, {2, 3, 2}, {6, 2, 1}}, at, 2, 3, 3,
                   2);
    CHECK(out == std::vector<T>{4, 5, 0, 1, 4, 5, 10, 11, 6, 7, 10, 11});
  };
  check(int8_t{});
  check(float{});
  check(double{});
}

TEST_CASE("add_rows adds in index order, duplicates included, at any number of threads") {
  const int64_t n = 5000, size = 7, inner = 300;
  std::vector<int64_t> index(static_cast<size_t>(n));
  std::vector<float> source(static_cast<size_t>(n * inner));
  for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<int64_t>((i * i) % 7);
  for (size_t i = 0; i < source.size(); ++i) source[i] = std::sin(static_cast<float>(i));
  std::vector<float> expected(static_cast<size_t>(size * inner), 1);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < inner; ++c)
      expected[static_cast<size_t>(index[static_cast<size_t>(i)] * inner + c)] +=
          source[static_cast<size_t>(i * inner + c)];
  }
  for (const int threads : {1, 2, 3}) {
    tt::set_thread_count(threads);
    std::vector<float> out(expected.size(), 1);
    cpu::add_rows({out.data(), tt::f32, {size, inner}, {inner, 1}},
                  {source.data(), tt::f32, {n, inner}, {inner, 1}}, {index.data(), tt::i64, {n}, {1}}, 1, n,
                  size, inner);
    CHECK(out == expected);
  }
}

TEST_CASE("scatter_add is the adjoint of gather") {
  std::vector<int32_t> x{10, 11, 12, 20, 21, 22}, out(4);
  std::vector<int64_t> index{2, 0, 1, 1};
  const View in{x.data(), tt::i32, {2, 3}, {3, 1}}, at{index.data(), tt::i64, {2, 2}, {2, 1}};
  cpu::gather({out.data(), tt::i32, {2, 2}, {2, 1}}, in, at, 1);
  CHECK(out == std::vector<int32_t>{12, 10, 21, 21});
  std::vector<int32_t> sum(6, 0);
  cpu::scatter_add({sum.data(), tt::i32, {2, 3}, {3, 1}}, at, {out.data(), tt::i32, {2, 2}, {2, 1}}, 1);
  CHECK(sum == std::vector<int32_t>{10, 0, 12, 0, 42, 0});
}

TEST_CASE("zero_triangle keeps exactly one side of the diagonal") {
  for (int64_t diagonal = -5; diagonal <= 5; ++diagonal) {
    for (const bool lower : {true, false}) {
      std::vector<int16_t> raw(2 * 3 * 4, 1);
      cpu::zero_triangle({raw.data(), tt::f16, {2, 3, 4}, {12, 4, 1}}, diagonal, lower);
      int wrong = 0;
      for (int64_t i = 0; i < 24; ++i) {
        const int64_t row = i / 4 % 3, col = i % 4;
        wrong += raw[static_cast<size_t>(i)] != (lower ? col - row <= diagonal : col - row >= diagonal);
      }
      CHECK(wrong == 0);
    }
  }
}
