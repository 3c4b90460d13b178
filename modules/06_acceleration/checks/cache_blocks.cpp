#include <06_acceleration/checks/cache_model.hpp>
#include <06_acceleration/checks/matrices.hpp>
#include <tinytorch/backend/cpu/ladder/cache_blocks.hpp>
#include <tinytorch/core/parallel.hpp>

using namespace course;
namespace ladder = tinytorch::backend::cpu::ladder;
using ladder::BlockSizes;

namespace {

template <class T>
ladder::Rows<T> rows_of(Grid<T>& g) {
  return {g.data(), g.rows, g.cols, g.row};
}
std::string text_of(const BlockSizes& s) {
  return ", blocks of m " + std::to_string(s.m) + ", n " + std::to_string(s.n) + ", k " + std::to_string(s.k);
}

template <class T>
void check_blocks(int64_t M, int64_t N, int64_t K, const BlockSizes& size) {
  Grid<T> a(M, K), b(K, N), c(M, N);
  a.fill(-9, 9);
  b.fill(-9, 9);
  ladder::blocked_product(rows_of(c), rows_of(a), rows_of(b), size);
  expect_product("blocked_product of " + sizes_text(M, N, K) + text_of(size), c, a, b);
}

}  // namespace

TEST_CASE("6.2 three square blocks fit the cache, and their rows are whole lines") {
  for (const int64_t element : {4, 8, 2, 1}) {
    const int64_t line = 64 / element;
    for (const int64_t bytes :
         {32 << 10, 48 << 10, 256 << 10, 2 << 20, 3 * 64 * 64 * 4, 3 * 64 * 64 * 4 - 1}) {
      const BlockSizes s = ladder::block_sizes(bytes, element);
      const std::string what =
          "block_sizes(" + std::to_string(bytes) + ", " + std::to_string(element) + "): " + text_of(s);
      expect(what + ": square", s.m == s.n && s.n == s.k);
      expect(what + ": whole lines", s.m > 0 && s.m % line == 0);
      expect(what + ": three fit", 3 * s.m * s.m * element <= bytes);
      expect(what + ": larger ones do not", 3 * (s.m + line) * (s.m + line) * element > bytes);
    }
  }
}

TEST_CASE("6.2 one line at least, and a cache of gigabytes") {
  expect_equal("block_sizes(100, 4).m", ladder::block_sizes(100, 4).m, int64_t{16});
  expect_equal("block_sizes(0, 8).n", ladder::block_sizes(0, 8).n, int64_t{8});
  // 3 * 37824^2 * 4 is just below 2^34.
  expect_equal("block_sizes(2^34, 4).k", ladder::block_sizes(int64_t{1} << 34, 4).k, int64_t{37824});
}

TEST_CASE("6.2 whole blocks, and blocks that are cut at each edge") {
  check_blocks<float>(16, 16, 16, {8, 8, 8});
  for (const int64_t n : {1, 7, 8, 9, 17}) {
    check_blocks<float>(n, 16, 16, {8, 8, 8});
    check_blocks<float>(16, n, 16, {8, 8, 8});
    check_blocks<float>(16, 16, n, {8, 8, 8});
  }
  check_blocks<double>(13, 29, 31, {5, 7, 3});
}

TEST_CASE("6.2 blocks of any sizes, and larger than the matrices") {
  check_blocks<float>(11, 13, 17, {1, 1, 1});
  check_blocks<float>(11, 13, 17, {100, 3, 40});
  check_blocks<float>(5, 6, 7, {int64_t{1} << 40, int64_t{1} << 40, int64_t{1} << 40});
  check_blocks<int64_t>(9, 8, 7, {2, 100, 3});
}

TEST_CASE("6.2 no terms give 0, and no rows or columns give nothing") {
  check_blocks<float>(3, 4, 0, {2, 2, 2});
  check_blocks<float>(0, 4, 5, {2, 2, 2});
  check_blocks<float>(4, 0, 5, {2, 2, 2});
}

TEST_CASE("6.2 misses of a small cache: at most those of square blocks") {
  // 48 lines have 768 floats: blocks of 16. About 2 M N K / 16 numbers in lines of 16, and c once.
  const int64_t M = 48, N = 64, K = 80;
  const BlockSizes size = ladder::block_sizes(48 * 64, 4);
  const auto n = counted_product(56, M, N, K, [&](const auto& c, const auto& a, const auto& b) {
    ladder::blocked_product(c, a, b, size);
  });
  const double most = 1.25 * (2.0 * M * N * K / 16 / 16 + 2.0 * M * N / 16);
  expect("misses of [48, 80] times [80, 64], with blocks of 16 and a cache of 56 lines: at most " +
             shown(most) + "; got " + shown(n.misses),
         static_cast<double>(n.misses) <= most);
}
