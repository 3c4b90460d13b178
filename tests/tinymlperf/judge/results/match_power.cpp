// Ranked matches on a simulated machine with drift, bursts and heavy tails: two equal entries rarely get
// different ranks, and a difference of 5 % is nearly always found. bench_match_power repeats this a thousand
// times for each kind of entry.
#include <doctest/doctest.h>

#include <support/few.hpp>
#include <support/simulated_match.hpp>
#include <tinymlperf/board/store/runs.hpp>

using namespace tinymlperf::judge;
using test::MachineNoise, test::separation, test::simulated_match;

namespace {

const auto kMachine = [](tinytorch::Generator& random) { return MachineNoise(random); };

}  // namespace

TEST_CASE("in 300 ranked matches equal entries are seldom told apart, and 5 % is found" *
          test::repeats_for_minutes()) {
  const auto equal = separation(kRanked, {20e-3, 1}, 300, 5, kMachine);
  const auto slower = separation(kRanked, {20e-3, 1.05}, 300, 6, kMachine);
  CAPTURE(equal.share());
  CAPTURE(slower.power());
  CHECK(equal.share() <= 0.08);  // 5 % and two and a half standard errors
  CHECK(slower.power() >= 0.95);
  // One long round a block, which takes the same seconds, finds it in a third of the matches.
  RunClass long_rounds = kRanked;
  long_rounds.rounds = 1;
  CHECK(separation(long_rounds, {20e-3, 1.05}, 300, 6, kMachine).power() < 0.6);
}

TEST_CASE("a match of several rounds has a value, a ratio and a record by its twelve blocks") {
  tinytorch::Generator random(4);
  MachineNoise noise(random);
  const RunDocument d = simulated_match(kRanked, {20e-3, 0.9}, noise, random);
  REQUIRE(d.contenders[0].turns.size() == 480);
  CHECK(values_of(d.scenario, d.contenders[0]).size() == 12);
  CHECK(*value_of(d.scenario, d.contenders[0]) > 20e-3);
  const auto ratio = times_the_baseline(d.scenario, d.contenders[1], d.contenders[0]);
  REQUIRE(ratio);
  CHECK(ratio->estimate == doctest::Approx(1 / 0.9).epsilon(0.03));
  const auto trial = tinymlperf::board::record_trial(d);
  REQUIRE(trial);
  CHECK(trial->accepted);
  CHECK(trial->speedup == doctest::Approx(ratio->estimate));
  CHECK(match_ranks(d)[1] == 1);
  CHECK(match_ranks(d)[0] == 2);
}

TEST_CASE("recorded noise is replayed in its order, and work that takes several slices meets all of them") {
  tinytorch::Generator random(1);
  const std::vector<double> factors{1, 3};
  test::RecordedNoise noise(factors, 1e-3, random);
  CHECK(noise(2e-3) == doctest::Approx(2));
  CHECK(noise(2000e-3) == doctest::Approx(2));
  const double first = noise(1e-6);
  noise.pass(1e-3);
  CHECK(noise(1e-6) + first == doctest::Approx(4).epsilon(0.02));
}
