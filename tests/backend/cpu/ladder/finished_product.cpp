#include <doctest/doctest.h>

#include <support/ladder_matrix.hpp>
#include <tinytorch/backend/cpu/ladder/finished_product.hpp>

using namespace test;
namespace ladder = tinytorch::backend::cpu::ladder;

TEST_CASE_TEMPLATE("bias, residual and function follow complete sums, once", T, float, double) {
  for (const int64_t K : {int64_t{0}, int64_t{3}, 2 * ladder::kDepthOfBlock + 1}) {
    const int64_t M = ladder::kRowsOfBlock + 3, N = 19;
    LadderMatrix<T> a(M, K, 1), b(K, N, 2), c(M, N, 3), residual(M, N + 2, 4), bias(1, M, 5);
    for (const bool by_rows : {false, true}) {
      const ladder::TileEpilogue<T> epilogue{.bias = bias.numbers.data(),
                                             .by_rows = by_rows,
                                             .residual = residual.numbers.data(),
                                             .residual_row = residual.row,
                                             .fn = [](T x) { return x > 0 ? x : 2 * x; }};
      ladder::finished_product<T>(c.numbers.data(), c.row, {a.numbers.data(), a.row, a.col},
                                  {b.numbers.data(), b.row, b.col}, M, N, K, epilogue);
      bool same = true;
      for (int64_t i = 0; i < M; ++i) {
        for (int64_t j = 0; j < N; ++j) {
          const double x = ladder_sum(a, b, i, j) + static_cast<double>(bias.at(0, by_rows ? i : j)) +
                           static_cast<double>(residual.at(i, j));
          same = same && c.at(i, j) == (x > 0 ? x : 2 * x);
        }
      }
      CHECK(same);
    }
  }
}
