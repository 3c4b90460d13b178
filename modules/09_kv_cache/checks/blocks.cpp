#include <tinytorch/kv_cache/blocks.hpp>

#include <support/check.hpp>

using namespace course;

namespace {

// Compares a pool with counts of holders that the check keeps itself.
void expect_sums(const BlockPool& pool, const std::vector<int64_t>& holders) {
  int64_t held = 0;
  bool same = true;
  for (size_t p = 0; p < holders.size(); ++p) {
    held += holders[p] > 0;
    same = same && pool.holders(static_cast<int32_t>(p)) == holders[p];
  }
  expect_equal("pages of the pool", pool.total(), std::ssize(holders));
  expect_equal("free pages", pool.free(), std::ssize(holders) - held);
  expect_equal("held pages", pool.held(), held);
  expect("the number of holders of each page", same);
}

}  // namespace

TEST_CASE("9.6 every page is taken once, with one holder") {
  for (const int64_t pages : {1, 2, 7, 300}) {
    BlockPool pool(pages);
    std::vector<int64_t> holders(static_cast<size_t>(pages), 0);
    for (int64_t i = 0; i < pages; ++i) {
      const int32_t page = pool.take();
      expect("take() from a pool of " + shown(pages) + ": a page of the pool, got page " + shown(page),
             page >= 0 && page < pages);
      expect("take(): page " + shown(page) + " was free", holders[static_cast<size_t>(page)] == 0);
      holders[static_cast<size_t>(page)] = 1;
      expect_sums(pool, holders);
    }
  }
}

TEST_CASE("9.6 an empty pool refuses, and goes on when a page comes back") {
  BlockPool pool(2);
  const int32_t first = pool.take();
  pool.take();
  expect_throws("TT-KV-06", "a third page from a pool of 2", [&] { pool.take(); });
  expect_equal("free pages after the refusal", pool.free(), int64_t{0});
  pool.give_back(first);
  expect_equal("the page that came back is taken next", pool.take(), first);
}

TEST_CASE("9.6 the page that was freed last is taken first") {
  BlockPool pool(5);
  std::vector<int32_t> pages;
  for (int i = 0; i < 4; ++i) pages.push_back(pool.take());
  pool.give_back(pages[1]);
  pool.give_back(pages[3]);
  expect_equal("after give_back(a), give_back(b): take() is b", pool.take(), pages[3]);
  expect_equal("and then a", pool.take(), pages[1]);
}

TEST_CASE("9.6 a shared page is free when its last holder has given it up") {
  BlockPool pool(3);
  const int32_t page = pool.take();
  pool.share(page), pool.share(page);
  expect_equal("holders after take() and two share()", pool.holders(page), int64_t{3});
  expect_equal("a page that three sequences hold is one page", pool.held(), int64_t{1});
  pool.give_back(page), pool.give_back(page);
  expect_equal("holders after two give_back()", pool.holders(page), int64_t{1});
  expect_equal("free pages while one sequence still holds it", pool.free(), int64_t{2});
  pool.give_back(page);
  expect_equal("free pages after the last give_back()", pool.free(), int64_t{3});
}

TEST_CASE("9.6 what nobody holds is neither shared nor given back, and a refusal changes nothing") {
  BlockPool pool(4);
  const int32_t page = pool.take(), other = pool.take();
  pool.give_back(page);
  std::vector<int64_t> holders(4, 0);
  holders[static_cast<size_t>(other)] = 1;
  expect_throws("TT-KV-07", "a second give_back of a page", [&] { pool.give_back(page); });
  expect_sums(pool, holders);
  expect_throws("TT-KV-07", "share of a page that is free", [&] { pool.share(page); });
  expect_sums(pool, holders);
  for (const int32_t none : {-1, 4, 1000}) {
    expect_throws("TT-KV-07", "give_back of page " + shown(none) + " of 4", [&] { pool.give_back(none); });
    expect_throws("TT-KV-07", "share of page " + shown(none) + " of 4", [&] { pool.share(none); });
  }
  expect_sums(pool, holders);
}

TEST_CASE("9.6 free + held = total in 100,000 random operations") {
  constexpr int64_t kPages = 37;
  BlockPool pool(kPages);
  std::vector<int64_t> holders(kPages, 0);
  int64_t held = 0;
  for (int i = 0; i < 100000; ++i) {
    const auto page = static_cast<int32_t>(uniform(0, kPages));
    int64_t& count = holders[static_cast<size_t>(page)];
    const auto action = static_cast<int>(uniform(0, 3));
    if (action == 0 && held < kPages) {
      const int32_t taken = pool.take();
      if (taken < 0 || taken >= kPages || holders[static_cast<size_t>(taken)] != 0)
        expect("operation " + shown(i) + ": take() gave page " + shown(taken) + ", which is held", false);
      holders[static_cast<size_t>(taken)] = 1;
      ++held;
    } else if (action == 1 && count > 0) {
      pool.share(page);
      ++count;
    } else if (action == 2 && count > 0) {
      pool.give_back(page);
      if (--count == 0) --held;
    }
    if (pool.free() + pool.held() != kPages || pool.held() != held)
      expect("operation " + shown(i) + ": " + shown(held) + " of 37 pages are held, the pool says " +
                 shown(pool.held()) + " and " + shown(pool.free()) + " free",
             false);
    if (i % 1000 == 0) expect_sums(pool, holders);
  }
  expect_sums(pool, holders);
}
