// The search for a server's rate finds the same rate from every start, and from a good start in few runs.
#include <doctest/doctest.h>

#include <tinymlperf/judge/match/rate_search.hpp>

using namespace tinymlperf::judge;

TEST_CASE("the rate is found from any start, and in few runs from near it") {
  for (const double most : {1.0, 3.7, 100.0, 12345.0}) {
    CAPTURE(most);
    for (const double start : {1.0, 2.0, most / 2 > 1 ? most / 2 : 1.0, 1e3, 1e5}) {
      CAPTURE(start);
      int runs = 0;
      const double found = highest_rate_near(start, [&](double rate) { return ++runs, rate <= most; });
      CHECK(found <= most);
      CHECK(found >= most / 1.06);
      if (start == most / 2) CHECK(runs <= 8);
    }
  }
  int runs = 0;
  CHECK(highest_rate_near(4096, [&](double) { return ++runs, false; }) == 0);
  CHECK(runs == 5);  // 4096, 512, 64, 8, 1
}

TEST_CASE("an easy rate leaves three quarters of the time free, and is never below one query a second") {
  CHECK(easy_rate(0.001) == doctest::Approx(250));
  CHECK(easy_rate(10) == 1);
}
