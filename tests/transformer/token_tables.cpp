// The hash tables of byte pair encoding are compared with std::map on random keys.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <tinytorch/transformer/token_tables.hpp>

namespace bpe = tinytorch::bpe;

TEST_CASE("PairRanks finds exactly the pairs that were inserted") {
  std::mt19937 random(3);
  std::map<std::pair<int32_t, int32_t>, int32_t> expected;
  bpe::PairRanks table(3000);
  for (int32_t rank = 0; rank < 3000; ++rank) {
    const auto left = static_cast<int32_t>(random() % 100), right = static_cast<int32_t>(random() % 100);
    CHECK(table.insert({left, right}, rank) == expected.try_emplace({left, right}, rank).second);
  }
  for (int32_t left = -1; left < 101; ++left) {
    for (int32_t right = -1; right < 101; ++right) {
      const auto found = expected.find({left, right});
      REQUIRE(table.find(left, right) == (found == expected.end() ? bpe::PairRanks::kNone : found->second));
    }
  }
  CHECK(bpe::PairRanks(0).find(0, 0) == bpe::PairRanks::kNone);
}

TEST_CASE("TokenTable finds and distinguishes bytes of every length, and rejects duplicates") {
  std::mt19937 random(4);
  std::set<std::string> keys;
  for (size_t length = 1; length <= 40; ++length) {
    for (int i = 0; i < 25; ++i) {
      std::string key(length, '\0');
      for (char& c : key) c = static_cast<char>(random() % 3);  // includes zeros, so that the length matters
      keys.insert(key);
    }
  }
  const std::vector<std::string> list(keys.begin(), keys.end());
  bpe::TokenTable table(list.size());
  for (size_t i = 0; i < list.size(); ++i) CHECK(table.insert(list[i], static_cast<int32_t>(i)));
  for (size_t i = 0; i < list.size(); ++i) {
    CHECK(table.find(list[i]) == static_cast<int32_t>(i));
    CHECK(!table.insert(list[i], 0));
    CHECK(table.find(list[i] + '\7') == -1);
  }
}
