#include <06_acceleration/checks/cache_model.hpp>
#include <06_acceleration/checks/matrices.hpp>
#include <tinytorch/backend/cpu/ladder/loops.hpp>

using namespace course;
namespace ladder = tinytorch::backend::cpu::ladder;

namespace {

const auto ijk = [](const auto& c, const auto& a, const auto& b) { ladder::product_ijk(c, a, b); };
const auto ikj = [](const auto& c, const auto& a, const auto& b) { ladder::product_ikj(c, a, b); };

template <class T>
ladder::Rows<T> rows_of(Grid<T>& g) {
  return {g.data(), g.rows, g.cols, g.row};
}

template <class T>
void check_sizes(int64_t M, int64_t N, int64_t K) {
  Grid<T> a(M, K), b(K, N), c(M, N);
  a.fill(-9, 9);
  b.fill(-9, 9);
  const auto run = [&](const char* name, auto f) {
    f(rows_of(c), rows_of(a), rows_of(b));
    expect_product(std::string(name) + " of " + sizes_text(M, N, K), c, a, b);
  };
  run("product_ijk", ijk);
  run("product_ikj", ikj);
}

}  // namespace

TEST_CASE("6.1 c = a b, of matrices that are not square") {
  check_sizes<float>(2, 4, 3);
  check_sizes<float>(5, 1, 7);
  check_sizes<float>(1, 9, 2);
  check_sizes<double>(17, 13, 31);
  check_sizes<int64_t>(7, 3, 19);
}

TEST_CASE("6.1 what c was before is not read, and rows may have gaps") {
  for (const int64_t n : {1, 2, 15, 16, 33}) check_sizes<float>(n, n + 1, n + 2);
}

TEST_CASE("6.1 no terms give 0, and no rows or columns give nothing") {
  check_sizes<float>(3, 4, 0);
  check_sizes<float>(0, 4, 5);
  check_sizes<float>(4, 0, 5);
}

TEST_CASE("6.1 both orders give the same sums of whole numbers") {
  const int64_t M = 13, N = 29, K = 41;
  Grid<double> a(M, K), b(K, N), one(M, N), other(M, N);
  a.fill(-1000, 1000, true);
  b.fill(-1000, 1000, true);
  ladder::product_ijk(rows_of(one), rows_of(a), rows_of(b));
  ladder::product_ikj(rows_of(other), rows_of(a), rows_of(b));
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j)
      expect_equal("element [" + shown(i) + ", " + shown(j) + "] of both", other.at(i, j), one.at(i, j));
}

TEST_CASE("6.1 product_ijk writes each sum once") {
  const int64_t M = 6, N = 20, K = 24;
  const CacheModel n = counted_product(16, M, N, K, ijk);
  expect_equal("accesses of product_ijk: 2 M N K of a and b, and M N of c", n.accesses,
               2 * M * N * K + M * N);
}

TEST_CASE("6.1 product_ikj walks along rows: few cache lines") {
  const int64_t M = 16, N = 64, K = 48;
  const CacheModel column = counted_product(24, M, N, K, ijk), row = counted_product(24, M, N, K, ikj);
  expect("lines that product_ikj reads again into a cache of 24 lines, at most 1.3 M N K / 16 = 3994; got " +
             shown(row.misses) + ", product_ijk " + shown(column.misses),
         static_cast<double>(row.misses) <= 1.3 * M * N * K / 16);
}
