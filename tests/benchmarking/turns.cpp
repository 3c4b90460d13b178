#include <doctest/doctest.h>

#include <support/made_turns.hpp>
#include <tinytorch/benchmarking/turns.hpp>

namespace bm = tinytorch::benchmarking;
using bm::Claim;
using bm::Quantity;
using bm::Turn;
using test::turn, test::turns;

TEST_CASE(
    "the value of a turn is its p90 latency or throughput; that of a contender the median of its turns") {
  CHECK(bm::value_of(Quantity::p90_latency, turn(2)) == 18);
  CHECK(bm::value_of(Quantity::throughput, turn(2)) == doctest::Approx(10.0 / 110));
  CHECK(bm::value_of(Quantity::p90_latency, turns({1, 100, 2})) == 18);
  CHECK(bm::value_of(Quantity::p90_latency, turns({1, 3})) == 18);
  CHECK_FALSE(bm::value_of(Quantity::p90_latency, bm::Turns{}));
}

TEST_CASE("the p99 of a few calls is the slowest; a certified bound needs enough calls") {
  CHECK(bm::value_of(Quantity::p99_latency, turn(2)) == 20);
  const auto many = [](size_t n) { return turns(std::vector<double>(n, 1.0)); };  // ten calls each
  CHECK_FALSE(bm::certified_bound(Quantity::p90_latency, many(6)));
  REQUIRE(bm::certified_bound(Quantity::p90_latency,
                              many(7)));  // the second-largest of 70 calls, of which seven are the largest
  CHECK(*bm::certified_bound(Quantity::p90_latency, many(7)) == 10);
  CHECK(*bm::certified_bound(Quantity::p90_latency, many(1000)) == 10);  // a tenth of all calls takes 10 s
  CHECK_FALSE(bm::certified_bound(Quantity::p99_latency, many(66)));
  CHECK(*bm::certified_bound(Quantity::p99_latency, many(67)) == 10);
  CHECK_FALSE(bm::certified_bound(Quantity::throughput, many(100)));
  CHECK_FALSE(bm::certified_bound(Quantity::p90_latency, bm::Turns{}));
  Turn even{1, 1000, {}};  // 1 .. 1000: at 99 % the bound of the p90 is slightly above 900
  for (int i = 1; i <= 1000; ++i) even.latencies.push_back(i);
  const double bound = *bm::certified_bound(Quantity::p90_latency, std::vector{even});
  CHECK(bound > 910);
  CHECK(bound < 930);
}

TEST_CASE("blocks are compared in pairs, and a better contender has a ratio above 1") {
  const auto ours = turns({1, 4, 2, 8, 4, 16, 8, 32, 1, 4, 2, 8, 7}),
             baseline = turns({2, 8, 4, 16, 8, 32, 16, 64, 2, 8, 4, 16, 7});
  CHECK(bm::block_values(Quantity::p90_latency, ours) ==
        std::vector<double>{18, 36, 72, 144, 18, 36});  // the thirteenth turn has no partner
  for (const Quantity q : {Quantity::p90_latency, Quantity::throughput}) {
    const auto ratio = bm::times_better(q, ours, baseline);
    REQUIRE(ratio);
    for (const double x : {ratio->estimate, ratio->low, ratio->high}) CHECK(x == doctest::Approx(2));
    CHECK(bm::times_better(q, baseline, ours)->estimate == doctest::Approx(0.5));
  }
  CHECK_FALSE(bm::times_better(Quantity::p90_latency, bm::Turns(ours).first(10), baseline));
  CHECK_FALSE(
      bm::times_better(Quantity::p90_latency, bm::Turns(ours).first(10), bm::Turns(baseline).first(10)));
  CHECK_FALSE(bm::times_better(Quantity::p90_latency, bm::Turns{}, bm::Turns{}));
}

TEST_CASE("difference finds every claimed number that does not follow from the samples") {
  const auto ours = turns({1, 1.1, 1, 1.2, 1, 1.3, 1, 1.1, 1, 1.2, 1, 1.4, 1, 1}),
             baseline = turns({2, 2, 2.1, 2, 2.2, 2, 2.5, 2, 2, 2, 2, 2, 2, 2});
  const Claim truth = bm::claim_of(Quantity::p90_latency, ours, baseline);
  REQUIRE(truth.times_the_baseline);
  CHECK(bm::difference(truth, truth).empty());
  const auto with = [&](auto&& change) {
    Claim c = truth;
    change(c);
    return bm::difference(c, truth);
  };
  CHECK(with([](Claim& c) { *c.value *= 1 + 1e-12; }).empty());  // rounding in a file is tolerated
  CHECK(with([](Claim& c) { *c.value *= 0.999; }).find("the value") == 0);
  CHECK(with([](Claim& c) { c.times_the_baseline->estimate += 0.1; }).find("the ratio is") == 0);
  CHECK(with([](Claim& c) { c.times_the_baseline->low += 0.1; }).find("the ratio's lower") == 0);
  CHECK(with([](Claim& c) { c.times_the_baseline->high -= 0.1; }).find("the ratio's upper") == 0);
  CHECK(with([](Claim& c) { c.value.reset(); }).find("claimed as nothing") != std::string::npos);
  CHECK(with([](Claim& c) { *c.value = NAN; }).find("the value") == 0);
  CHECK(bm::difference(truth, {}).find("give nothing") != std::string::npos);
  CHECK(bm::difference({}, {}).empty());
}
