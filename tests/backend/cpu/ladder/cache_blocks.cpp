#include <doctest/doctest.h>

#include <support/ladder_matrix.hpp>
#include <tinytorch/backend/cpu/ladder/cache_blocks.hpp>

using namespace test;
namespace ladder = tinytorch::backend::cpu::ladder;

TEST_CASE("three square blocks of whole lines fit the cache") {
  for (const int64_t bytes : {100, 3072, 3071, 1 << 20}) {
    const ladder::BlockSizes s = ladder::block_sizes(bytes, 4);
    CHECK(s.m == s.n);
    CHECK(s.n == s.k);
    CHECK(s.m % 16 == 0);
    CHECK((s.m == 16 || 3 * s.m * s.m * 4 <= bytes));
    CHECK(3 * (s.m + 16) * (s.m + 16) * 4 > bytes);
  }
}

TEST_CASE("blocks of any sizes give the product") {
  LadderMatrix<float> a(11, 13, 1), b(13, 17, 2), c(11, 17, 3);
  const ladder::Rows<float> left(a.numbers.data(), 11, 13, a.row), right(b.numbers.data(), 13, 17, b.row);
  for (const ladder::BlockSizes size : {ladder::BlockSizes{1, 1, 1}, {4, 5, 6}, {100, 3, 100}}) {
    ladder::blocked_product(ladder::Rows<float>(c.numbers.data(), 11, 17, c.row), left, right, size);
    for (int64_t i = 0; i < 11; ++i)
      for (int64_t j = 0; j < 17; ++j) CHECK(c.at(i, j) == ladder_sum(a, b, i, j));
  }
}
