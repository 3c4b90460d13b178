// Ranks of contenders of the same blocks, in simulated matches with known costs.
#include <doctest/doctest.h>

#include <cmath>
#include <support/noise.hpp>
#include <tinytorch/benchmarking/block_ranking.hpp>
#include <tinytorch/benchmarking/statistics.hpp>

namespace st = tinytorch::statistics;

namespace {

using Costs = std::vector<std::vector<double>>;

std::vector<int64_t> ranks_of(const std::vector<st::Rank>& order) {
  std::vector<int64_t> out(order.size());
  for (const auto& [index, rank] : order) out[index] = rank;
  return out;
}

// Simulates blocks of contenders with true costs `truth`. Drift and slow phases of the machine affect all
// turns of a block; each turn has independent noise.
Costs match(const std::vector<double>& truth, size_t blocks, double noise, tinytorch::Generator& random) {
  Costs out(truth.size(), std::vector<double>(blocks));
  for (size_t b = 0; b < blocks; ++b) {
    const double machine = 1 + 0.01 * static_cast<double>(b) + (random.uniform() < 0.3 ? 0.2 : 0.0);
    for (size_t i = 0; i < truth.size(); ++i)
      out[i][b] = truth[i] * machine * std::exp(noise * normal_number(random));
  }
  return out;
}

// The ranks that intervals of ratios to the first contender would give for these matches.
std::vector<int64_t> by_intervals(const Costs& costs) {
  std::vector<st::Interval> ratios;
  for (const auto& c : costs) ratios.push_back(*st::paired_ratio(costs[0], c));
  return ranks_of(st::rank_with_ties(ratios));
}

}  // namespace

TEST_CASE("a contender that is slower in every block ranks lower, in any input order") {
  const Costs costs{
      {2, 2.2, 2, 2.1, 2, 2, 2.1, 2}, {1, 1.1, 1, 1, 1, 1.1, 1, 1}, {4, 4, 4.1, 4, 4, 4.2, 4, 4}};
  CHECK(ranks_of(st::rank_by_blocks(costs)) == std::vector<int64_t>{2, 1, 3});
  CHECK(st::rank_by_blocks(costs)[0].index == 1);
  const Costs equal(3, costs[0]);
  CHECK(ranks_of(st::rank_by_blocks(equal)) == std::vector<int64_t>{1, 1, 1});
  CHECK(st::rank_by_blocks({}).empty());
  CHECK(ranks_of(st::rank_by_blocks(Costs{costs[2]})) == std::vector<int64_t>{1});
}

TEST_CASE("with five blocks all share rank 1") {
  const Costs costs{{1, 1, 1, 1, 1}, {9, 9, 9, 9, 9}};
  CHECK(ranks_of(st::rank_by_blocks(costs)) == std::vector<int64_t>{1, 1});
}

TEST_CASE("costs that are not above 0, or different numbers of blocks, throw") {
  CHECK_THROWS_WITH(st::rank_by_blocks(Costs{{1, 2}, {1, 0}}), doctest::Contains("rank_by_blocks"));
  CHECK_THROWS_WITH(st::rank_by_blocks(Costs{{1, 2}, {1}}), doctest::Contains("rank_by_blocks"));
}

TEST_CASE(
    "differences of 3 % are detected although intervals to a baseline overlap; equal costs share a rank") {
  tinytorch::Generator random(7);
  constexpr int kMatches = 1000;
  int pairs = 0, intervals = 0, equal = 0;
  for (int m = 0; m < kMatches; ++m) {
    const Costs costs = match({1, 1.03, 1.06, 1}, 12, 0.015, random);
    const auto r = ranks_of(st::rank_by_blocks(costs)), other = by_intervals(costs);
    pairs += r[0] < r[1] && r[1] < r[2];
    intervals += other[0] < other[1] && other[1] < other[2];
    equal += r[0] == r[3];
  }
  CAPTURE(pairs);
  CAPTURE(intervals);
  CAPTURE(equal);
  CHECK(pairs >= 970);
  CHECK(intervals < 800);
  CHECK(equal >= 930);
  CHECK(equal <= 975);  // 95 %: an interval that always contained 1 would be too wide
}

TEST_CASE("blocks of several rounds count as the median of their rounds") {
  Costs costs(2);
  for (int round = 0; round < 36; ++round) {
    const double machine = 1 + 0.1 * round;
    costs[0].push_back(machine);
    costs[1].push_back(machine * (round % 3 == 0 ? 0.2 : 1.1));  // one round of three was disturbed
  }
  CHECK(ranks_of(st::rank_by_blocks(costs, 3)) == std::vector<int64_t>{1, 2});
  // Six blocks are needed, however many rounds they have.
  CHECK(ranks_of(st::rank_by_blocks(costs, 7)) == std::vector<int64_t>{1, 1});
}
