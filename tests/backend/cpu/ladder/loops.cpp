#include <doctest/doctest.h>

#include <support/ladder_matrix.hpp>
#include <tinytorch/backend/cpu/ladder/loops.hpp>

using namespace test;
namespace ladder = tinytorch::backend::cpu::ladder;

TEST_CASE_TEMPLATE("both orders of the loops give the product, whatever c was", T, float, double) {
  for (const int64_t K : {0, 1, 9}) {
    LadderMatrix<T> a(5, K, 1), b(K, 7, 2), c(5, 7, 3), other(5, 7, 4);
    const ladder::Rows<T> left(a.numbers.data(), 5, K, a.row), right(b.numbers.data(), K, 7, b.row);
    ladder::product_ijk(ladder::Rows<T>(c.numbers.data(), 5, 7, c.row), left, right);
    ladder::product_ikj(ladder::Rows<T>(other.numbers.data(), 5, 7, other.row), left, right);
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < 7; ++j) {
        CHECK(c.at(i, j) == ladder_sum(a, b, i, j));
        CHECK(other.at(i, j) == ladder_sum(a, b, i, j));
      }
    }
  }
}
