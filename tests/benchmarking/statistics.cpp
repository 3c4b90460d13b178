// statistics.hpp must include all headers of the folder's statistics.
#include <doctest/doctest.h>

#include <tinytorch/benchmarking/statistics.hpp>

namespace st = tinytorch::statistics;

TEST_CASE("statistics.hpp includes every part, and the parts agree on one set of samples") {
  std::vector<double> a, b;
  for (int i = 0; i < 64; ++i) {
    a.push_back(1 + (i * 37 % 64) / 640.0);  // 1 .. 1.1, in no order
    b.push_back(1.2 * a.back());
  }
  const double middle = st::median(a);
  const auto by_rank = st::percentile_rank_interval(a, 50);
  const auto by_bootstrap = st::bootstrap_median(a, {.draws = 2000});
  REQUIRE(by_rank.has_value());
  for (const auto& interval : {*by_rank, by_bootstrap}) {
    CHECK(interval.low < middle);
    CHECK(middle < interval.high);
  }
  CHECK(std::abs(by_rank->low - by_bootstrap.low) < 0.01);  // two methods for the same interval
  CHECK(std::abs(by_rank->high - by_bootstrap.high) < 0.01);
  CHECK(*st::percentile_upper_bound(a, 90) >= st::percentile(a, 90));
  CHECK(st::mann_whitney(a, b, st::Alternative::kLess).p < 1e-9);
  CHECK(st::paired_ratio(b, a)->estimate == doctest::Approx(1.2));
  CHECK(st::steady_state(a).warm_up.has_value());
  CHECK(st::rank_with_ties(std::vector<st::Interval>{*by_rank, by_bootstrap})[1].rank == 1);
  CHECK(st::normal_tail(0) == 0.5);
}
