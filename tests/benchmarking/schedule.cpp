#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tinytorch/benchmarking/schedule.hpp>

namespace bm = tinytorch::benchmarking;

TEST_CASE("every block contains every contender once; all orders are about equally frequent") {
  const auto blocks = bm::random_blocks(3, 6000, 7);
  REQUIRE(blocks.size() == 6000);
  std::map<std::vector<size_t>, int> seen;
  for (const auto& row : blocks) {
    auto sorted = row;
    std::sort(sorted.begin(), sorted.end());
    REQUIRE(sorted == std::vector<size_t>{0, 1, 2});
    ++seen[row];
  }
  REQUIRE(seen.size() == 6);
  for (const auto& [row, count] : seen) CHECK(std::abs(count - 1000) < 150);  // 5 standard deviations
  CHECK(bm::random_blocks(5, 20, 1) == bm::random_blocks(5, 20, 1));
  CHECK(bm::random_blocks(5, 20, 1) != bm::random_blocks(5, 20, 2));
}

TEST_CASE(
    "mirrored blocks: both turns of a contender have the same mean position; orders are equally frequent") {
  for (const size_t k : {1u, 2u, 3u, 5u}) {
    const auto blocks = bm::mirrored_blocks(k, 50, 3);
    REQUIRE(blocks.size() == 50);
    for (const auto& row : blocks) {
      REQUIRE(row.size() == 2 * k);
      std::vector<size_t> turns(k), sum(k);
      for (size_t i = 0; i < row.size(); ++i) {
        ++turns.at(row[i]);
        sum.at(row[i]) += i;
      }
      CHECK(turns == std::vector<size_t>(k, 2));
      CHECK(sum == std::vector<size_t>(k, 2 * k - 1));
    }
  }
  std::map<std::vector<size_t>, int> seen;
  for (const auto& row : bm::mirrored_blocks(3, 6000, 8)) ++seen[row];
  REQUIRE(seen.size() == 6);
  for (const auto& [row, count] : seen) CHECK(std::abs(count - 1000) < 150);
}

TEST_CASE("ABBA: each start has half of the blocks, independently of the previous block") {
  const std::vector<size_t> abba{0, 1, 1, 0}, baab{1, 0, 0, 1};
  const auto blocks = bm::abba_blocks(4000, 5);
  int starts = 0, changes = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    REQUIRE((blocks[i] == abba || blocks[i] == baab));
    starts += blocks[i] == abba;
    changes += i > 0 && blocks[i] != blocks[i - 1];
  }
  CHECK(std::abs(starts - 2000) < 160);  // 5 standard deviations
  CHECK(std::abs(changes - 2000) < 160);
  CHECK(bm::abba_blocks(20, 1) == bm::abba_blocks(20, 1));
  CHECK(bm::abba_blocks(20, 1) != bm::abba_blocks(20, 2));
}
