#include <tinytorch/kv_cache/blocks.hpp>

#include <map>
#include <set>
#include <support/errors.hpp>
#include <tinytorch/core/random.hpp>

namespace tt = tinytorch;

TEST_CASE(
    "free + held = total through 100,000 random calls, and no page has two owners that do not share it") {
  tt::BlockPool pool(37);
  tt::Generator generator(1);
  std::map<int32_t, int64_t> model;  // holders of each page that is held
  for (int i = 0; i < 100'000; ++i) {
    const double what = generator.uniform();
    auto some = model.begin();
    if (!model.empty())
      std::advance(some,
                   static_cast<std::ptrdiff_t>(generator.uniform(0, static_cast<double>(model.size()))));
    if (what < 0.4) {
      if (model.size() == 37) {
        CHECK_THROWS_AS((void)pool.take(), tt::Error);
      } else {
        const int32_t page = pool.take();
        const bool is_new = model.emplace(page, 1).second;
        if (!is_new) FAIL("page ", page, " was given out twice");
      }
    } else if (what < 0.6 && some != model.end()) {
      pool.share(some->first), ++some->second;
    } else if (some != model.end()) {
      pool.give_back(some->first);
      if (--some->second == 0) model.erase(some);
    }
    if (pool.held() != std::ssize(model) || pool.free() + pool.held() != pool.total()) FAIL("after call ", i);
  }
  for (const auto& [page, holders] : model) CHECK(pool.holders(page) == holders);
}

TEST_CASE("a page that nobody holds is neither shared nor given back; sizes are checked") {
  tt::BlockPool pool(3);
  const int32_t page = pool.take();
  pool.give_back(page);
  test::expect_error("TT-KV-07", "nobody holds it", [&] { pool.give_back(page); });
  test::expect_error("TT-KV-07", "nobody holds it", [&] { pool.share(page); });
  test::expect_error("TT-KV-07", "no such page", [&] { pool.give_back(3); });
  test::expect_error("TT-KV-07", "no such page", [&] { pool.share(-1); });
  for (int i = 0; i < 3; ++i) (void)pool.take();
  test::expect_error("TT-KV-06", "all 3 pages", [&] { (void)pool.take(); });
  CHECK(pool.held() == 3);
  test::expect_error("TT-KV-01", "got 0", [] { tt::BlockPool none(0); });
  test::expect_error("TT-KV-01", "pages", [] { tt::BlockPool many(int64_t{1} << 31); });
}

TEST_CASE("a kept page is cached when no sequence holds it, until it is dropped") {
  tt::BlockPool pool(3);
  const auto counts = [&] { return std::vector<int64_t>{pool.free(), pool.held(), pool.cached()}; };
  using Counts = std::vector<int64_t>;
  const int32_t page = pool.take();
  pool.keep(page);
  CHECK(counts() == Counts{2, 1, 0});
  CHECK(pool.holders(page) == 2);
  pool.give_back(page);
  CHECK(counts() == Counts{2, 0, 1});
  test::expect_error("TT-KV-07", "no sequence holds it", [&] { pool.give_back(page); });
  test::expect_error("TT-KV-07", "kept already", [&] { pool.keep(page); });
  pool.share(page);
  pool.share(page);
  CHECK(counts() == Counts{2, 1, 0});
  pool.drop(page);
  CHECK(pool.holders(page) == 2);
  test::expect_error("TT-KV-07", "not kept", [&] { pool.drop(page); });
  pool.keep(page);
  pool.give_back(page), pool.give_back(page);
  CHECK(counts() == Counts{2, 0, 1});
  pool.drop(page);
  CHECK(counts() == Counts{3, 0, 0});
  test::expect_error("TT-KV-07", "nobody holds it", [&] { pool.keep(page); });
}
