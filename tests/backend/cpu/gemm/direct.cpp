// Products without packing: every height and width of a tile, strides, depths around the blocks, dot products
// of all numbers of rows.
#include <doctest/doctest.h>
#include <cmath>
#include <tinytorch/backend/cpu/gemm/direct.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

namespace {

enum class Form { direct, direct_of_transposed, dots };

template <class T>
void check(Form form, int64_t M, int64_t N, int64_t K, bool accumulate) {
  CAPTURE(static_cast<int>(form));
  CAPTURE(M);
  CAPTURE(N);
  CAPTURE(K);
  tt::Generator g(static_cast<uint64_t>(M * 10'000 + N * 100 + K));
  std::vector<T> a(static_cast<size_t>((M + 1) * (K + 1))), b(static_cast<size_t>((K + 1) * (N + 1)));
  for (auto* v : {&a, &b})
    for (T& x : *v) x = static_cast<T>(g.uniform(-1, 1));
  const int64_t c_row = N + 2;
  std::vector<T> c(static_cast<size_t>(M * c_row), T(3));
  const cpu::Matrix<T> left = form == Form::direct_of_transposed ? cpu::Matrix<T>{a.data(), 1, M + 1}
                                                                 : cpu::Matrix<T>{a.data(), K + 1, 1};
  const cpu::Matrix<T> right =
      form == Form::dots ? cpu::Matrix<T>{b.data(), 1, K + 1} : cpu::Matrix<T>{b.data(), N + 1, 1};
  if (form == Form::dots)
    cpu::dot_product(c.data(), c_row, left, right, M, N, K, accumulate, true);
  else
    cpu::direct_product(c.data(), c_row, left, right, M, N, K, accumulate, true);
  const double epsilon = std::is_same_v<T, float> ? 0x1p-23 : 0x1p-52;
  for (int64_t i = 0; i < M; ++i) {
    for (int64_t j = 0; j < c_row; ++j) {
      double sum = accumulate ? 3 : 0, size = sum;
      for (int64_t k = 0; k < K && j < N; ++k) {
        const double product = static_cast<double>(left.data[i * left.row + k * left.col]) *
                               static_cast<double>(right.data[k * right.row + j * right.col]);
        sum += product;
        size += std::abs(product);
      }
      if (j >= N) sum = 3;  // the gap between rows is unchanged
      REQUIRE(std::abs(static_cast<double>(c[static_cast<size_t>(i * c_row + j)]) - sum) <=
              8 * epsilon * size);
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("tiles of every height and width", T, float, double) {
  for (const Form form : {Form::direct, Form::direct_of_transposed}) {
    for (int64_t M = 1; M <= 14; ++M) {
      for (const int64_t N : {int64_t{1}, tt::kLanes<T> - 1, tt::kLanes<T>, tt::kLanes<T> + 1,
                              3 * tt::kLanes<T> - 1, cpu::kNR<T>, cpu::kNR<T> + 1})
        check<T>(form, M, N, 5, M % 2 == 0);
    }
  }
}

TEST_CASE_TEMPLATE("deeper than a block, taller than a task, wider than a strip", T, float, double) {
  for (const bool accumulate : {false, true}) {
    check<T>(Form::direct, 1, 300, 67, accumulate);
    check<T>(Form::direct, 8, 130, 33, accumulate);
    check<T>(Form::direct, 9, 70, 513, accumulate);
    check<T>(Form::direct, 201, 20, 40, accumulate);
    check<T>(Form::direct_of_transposed, 100, 333, 12, accumulate);
  }
}

TEST_CASE_TEMPLATE("one row, at every depth around kRowStreams", T, float, double) {
  for (const Form form : {Form::direct, Form::direct_of_transposed}) {
    for (int64_t K = 1; K <= 2 * cpu::kRowStreams + 3; ++K) check<T>(form, 1, 50 + K, K, K % 2 == 0);
    check<T>(form, 1, cpu::kRowBlockCols + 3, 11, true);
  }
}

TEST_CASE_TEMPLATE("dot products of one to eight rows", T, float, double) {
  for (int64_t M = 1; M <= 8; ++M) {
    for (const int64_t K : {int64_t{1}, tt::kLanes<T>, tt::kLanes<T> + 1, int64_t{70}}) {
      for (const int64_t N : {1, 3, 4, 9}) check<T>(Form::dots, M, N, K, N % 2 == 1);
    }
  }
}
