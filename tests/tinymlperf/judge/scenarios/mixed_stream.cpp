// New and repeated samples of a stream: all come, spread at random, and neither kind comes in a block.
#include <doctest/doctest.h>

#include <set>
#include <tinymlperf/judge/scenarios/mixed_stream.hpp>

using tinymlperf::judge::MixedStream;

TEST_CASE("a query holds different samples, and says truly if one of them is new") {
  for (const int64_t n : {1, 2, 7, 30}) {
    for (const int64_t k : {int64_t{1}, int64_t{3}, n}) {
      if (k > n) continue;
      CAPTURE(n);
      CAPTURE(k);
      MixedStream stream(n, 5);
      std::set<int64_t> seen;
      for (int64_t turn = 1; turn <= 60; ++turn) {
        stream.spread(turn, 4);
        const auto query = stream.next(k);
        const size_t before = seen.size();
        seen.insert(query.begin(), query.end());
        CHECK(std::set<int64_t>(query.begin(), query.end()).size() == static_cast<size_t>(k));
        CHECK(stream.was_new() == (seen.size() > before));
        CHECK(stream.asked() == static_cast<int64_t>(seen.size()));
      }
      stream.only_new(true);
      for (int64_t i = 0; i < n; ++i) seen.insert(stream.next(1)[0]);
      CHECK(seen.size() == static_cast<size_t>(n));
    }
  }
}

TEST_CASE("new samples are spread over the expected queries, and the same query comes twice now and then") {
  MixedStream stream(1000, 3);
  (void)stream.next(1);
  stream.spread(201, 2000);
  int64_t first_half = 0, fresh = 0, same = 0;
  std::vector<int64_t> last;
  for (int i = 0; i < 2000; ++i) {
    const auto query = stream.next(1);
    fresh += stream.was_new(), first_half += i < 1000 && stream.was_new();
    same += query == last;
    last = query;
  }
  CHECK(fresh > 150);
  CHECK(fresh <= 200);
  CHECK(first_half > 60);
  CHECK(first_half < 140);
  CHECK(same > 120);
  stream.spread(1000, 10);  // more than there are queries: half of them are new
  int64_t many = 0;
  for (int i = 0; i < 200; ++i) many += (stream.next(1), stream.was_new());
  CHECK(many > 60);
  CHECK(many < 140);
}

TEST_CASE("the order follows from the seed, and a query of more samples than there are is refused") {
  MixedStream a(50, 1), b(50, 1), c(50, 2);
  const auto first = a.next(50);
  CHECK(b.next(50) == first);
  CHECK(c.next(50) != first);
  MixedStream few(4, 1);
  CHECK_THROWS_AS(few.next(5), std::invalid_argument);
  CHECK_THROWS_AS(MixedStream(0, 1), std::invalid_argument);
}
