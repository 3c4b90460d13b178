// Every sample comes once before any repeats, whatever the size of the queries.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <tinymlperf/judge/scenarios/sample_stream.hpp>

using tinymlperf::judge::SampleStream;

TEST_CASE("no sample comes twice before all came once, and none twice in a query") {
  for (const int64_t n : {1, 2, 7, 30}) {
    for (const int64_t k : {int64_t{1}, int64_t{3}, n}) {
      if (k > n) continue;
      CAPTURE(n);
      CAPTURE(k);
      SampleStream stream(n, 5);
      std::map<int64_t, int64_t> times;
      for (int64_t asked = 0; asked < 6 * n; asked += k) {
        const auto query = stream.next(k);
        CHECK(std::set<int64_t>(query.begin(), query.end()).size() == static_cast<size_t>(k));
        for (const int64_t s : query) ++times[s];
        int64_t least = times.size() < static_cast<size_t>(n) ? 0 : 1 << 30, most = 0;
        for (const auto& [sample, count] : times)
          least = std::min(least, count), most = std::max(most, count);
        CHECK(most - least <= 1);
      }
    }
  }
}

TEST_CASE("the order follows from the seed, and changes from round to round") {
  SampleStream a(50, 1), b(50, 1), c(50, 2);
  const auto first = a.next(50), second = a.next(50);
  CHECK(b.next(50) == first);
  CHECK(c.next(50) != first);
  CHECK(second != first);
}

TEST_CASE("a query of more samples than there are is refused") {
  SampleStream stream(4, 1);
  CHECK_THROWS_AS(stream.next(5), std::invalid_argument);
  CHECK_THROWS_AS(SampleStream(0, 1), std::invalid_argument);
}
