// Few items are all kept; of many, each has the same chance.
#include <doctest/doctest.h>

#include <tinymlperf/support/random_selection.hpp>

using tinymlperf::RandomSelection;

TEST_CASE("of many items a random selection is kept") {
  RandomSelection<int64_t> few(256, 1), many(256, 1);
  for (int64_t i = 0; i < 100; ++i) few.add(i);
  CHECK(few.kept().size() == 100);
  for (int64_t i = 0; i < 10000; ++i) many.add(i);
  REQUIRE(many.kept().size() == 256);
  double mean = 0;
  for (const int64_t i : many.kept()) mean += static_cast<double>(i) / 256;
  CHECK(mean > 4000);
  CHECK(mean < 6000);
}
