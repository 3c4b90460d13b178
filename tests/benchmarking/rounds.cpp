// Blocks of several rounds: their ratios, their values, and intervals that hold although rounds of a block
// are alike.
#include <tinytorch/benchmarking/rounds.hpp>

#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/made_turns.hpp>
#include <support/noise.hpp>

namespace bm = tinytorch::benchmarking;
namespace st = tinytorch::statistics;
using bm::Quantity, bm::Turn;
using test::turn, test::turns;
using tinytorch::Generator;

TEST_CASE("more than 24 turns are twelve blocks of several rounds, whose turns are pooled for a value") {
  CHECK(bm::rounds_of(2) == 1);
  CHECK(bm::rounds_of(24) == 1);
  CHECK(bm::rounds_of(47) == 1);
  CHECK(bm::rounds_of(72) == 3);
  CHECK(bm::rounds_of(480) == 20);
  const auto few = turns({1, 2, 3});
  CHECK(bm::pooled_turns(few).size() == 3);
  std::vector<double> scales;  // each of twelve blocks has turns of 1, 1, 1 and 5
  for (int i = 0; i < 48; ++i) scales.push_back(i % 4 == 3 ? 5 : 1);
  auto many = turns(scales);
  many[0].tokens = {3}, many[1].tokens = {4}, many[0].to_first = {0.5};
  for (Turn& t : many) t.rate = 8;
  const auto pooled = bm::pooled_turns(many);
  REQUIRE(pooled.size() == 12);
  CHECK(pooled[0].samples == 40);
  CHECK(pooled[0].seconds == 55 * 8);
  CHECK(pooled[0].latencies.size() == 40);
  CHECK(pooled[0].tokens == std::vector<int64_t>{3, 4});
  CHECK(pooled[0].to_first == std::vector<double>{0.5});
  CHECK(pooled[0].rate == 8);
  CHECK(pooled[1].tokens.empty());
  // The slow turns are a quarter of the queries, so the p90 lies among their latencies.
  CHECK(*bm::value_of(Quantity::p90_latency, bm::pooled_turns(many)) > 25);
  CHECK(*bm::value_of(Quantity::throughput, bm::pooled_turns(many)) == doctest::Approx(40.0 / 440));
  many.resize(50, turn(100));  // two turns are left over
  CHECK(bm::pooled_turns(many).size() == 12);
}

TEST_CASE("the ratio of blocks of several rounds is the median of their rounds' ratios") {
  std::vector<double> ours, theirs;
  for (int block = 0; block < 12; ++block)
    for (int round = 0; round < 3; ++round)
      for (int turn = 0; turn < 2; ++turn) {
        const double machine = 1 + 0.2 * block + 0.1 * round;
        theirs.push_back(machine * (round == 1 ? 9 : 2));  // one round of three was disturbed
        ours.push_back(machine);
      }
  const auto ratio = bm::times_better_of_rounds(Quantity::p90_latency, turns(ours), turns(theirs));
  REQUIRE(ratio);
  CHECK(ratio->estimate == doctest::Approx(2));
  CHECK(ratio->high == doctest::Approx(2));
  const auto speed = bm::times_better_of_rounds(Quantity::throughput, turns(ours), turns(theirs));
  CHECK(speed->estimate == doctest::Approx(2));
}

TEST_CASE("rounds of a block are no independent blocks: their common offset is part of the interval") {
  Generator random(12);
  constexpr size_t kBlocks = 12, kRounds = 10;
  int single = 0, grouped = 0;
  for (int run = 0; run < 500; ++run) {
    std::vector<double> a(kBlocks * kRounds, 1.0), b = a;
    double offset = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      if (i % kRounds == 0) offset = 0.01 * normal_number(random);
      a[i] = std::exp(offset + 0.01 * normal_number(random));
    }
    const auto holds = [](const st::Interval& i) { return i.low <= 1 && 1 <= i.high; };
    single += holds(*st::paired_ratio(a, b));
    grouped += holds(*st::paired_ratio_of_rounds(a, b, kRounds));
  }
  CHECK(single < 400);
  CHECK(grouped >= 465);
  CHECK(grouped <= 490);
}

TEST_CASE(
    "one round in a block is a block, rounds that are left over are ignored, and too few give nothing") {
  const std::vector<double> two{2, 4, 8, 16, 32, 64, 128}, ones(7, 1.0);
  const auto same = [](const st::Interval& a, const st::Interval& b) {
    return a.estimate == b.estimate && a.low == b.low && a.high == b.high;
  };
  CHECK(same(*st::paired_ratio_of_rounds(two, ones, 1), *st::paired_ratio(two, ones)));
  CHECK(st::block_ratios(two, ones, 3) ==
        std::vector<double>{std::exp(std::log(4.0)), std::exp(std::log(32.0))});
  CHECK_FALSE(st::paired_ratio_of_rounds(two, ones, 3));
  CHECK(message_of([&] { st::paired_ratio_of_rounds(two, ones, 8); }).substr(0, 10) == "TT-STAT-03");
  CHECK(message_of([&] { st::block_ratios(two, ones, 0); }).substr(0, 10) == "TT-STAT-03");
  CHECK(message_of([&] { st::block_ratios(two, st::Samples(ones).first(3), 2); }).substr(0, 10) ==
        "TT-STAT-05");
}
