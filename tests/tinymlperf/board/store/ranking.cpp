// Ranks, computed a second time here from the samples with textbook formulas; and reasons for not being
// ranked.
#include <doctest/doctest.h>

#include <support/board.hpp>
#include <support/noise.hpp>
#include <tinymlperf/board/store/ranking.hpp>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::RunRecipe;

namespace {

constexpr int64_t kBase = 1;
const std::vector<std::string> kScenarios{"single_stream", "offline"};

using Results = std::map<int64_t, std::vector<board::Result>>;

judge::RunDocument played(const RunRecipe& recipe) {
  return test::run_document({"base", "b"}, {"entry", "e"}, recipe);
}

void add(Results& all, int64_t submission, const judge::RunDocument& d) {
  for (const size_t place : {size_t{0}, size_t{1}}) {
    auto r = result_of(d, place);
    if (!r) continue;
    r->submission = place == 0 ? kBase : submission;
    r->run = static_cast<int64_t>(all[kBase].size());
    all[r->submission].push_back(*r);
  }
}
void add_both(Results& all, int64_t submission, RunRecipe recipe) {
  for (const std::string& s : kScenarios)
    recipe.scenario = s, ++recipe.seed, add(all, submission, played(recipe));
}
const Standing& of(const std::vector<Standing>& table, int64_t submission) {
  for (const Standing& s : table)
    if (s.submission == submission) return s;
  throw std::runtime_error("no such row");
}

// ---- the same from the samples, by hand

double turn_value(const judge::RunDocument& d, const judge::Turn& t) {
  if (d.scenario == judge::Scenario::offline) return static_cast<double>(t.samples) / t.seconds;
  auto sorted = t.latencies;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<size_t>(std::ceil(0.9 * static_cast<double>(sorted.size()))) - 1];
}

// Hodges-Lehmann estimate and Wilcoxon interval of 12 pairs. Tables of the signed-rank test: 12 pairs,
// two-sided 5 %: 13, so the ends are the 14th of the 78 Walsh averages from either side.
std::array<double, 3> log_ratio_by_hand(const judge::RunDocument& d) {
  std::vector<double> logs, walsh;
  for (size_t i = 0; i + 1 < 24; i += 2) {
    const auto block = [&](size_t who) {
      const auto& turns = d.contenders[who].turns;
      return (std::log(turn_value(d, turns[i])) + std::log(turn_value(d, turns[i + 1]))) / 2;
    };
    const double difference = block(0) - block(1);
    logs.push_back(d.scenario == judge::Scenario::offline ? -difference : difference);
  }
  for (size_t i = 0; i < 12; ++i)
    for (size_t j = i; j < 12; ++j) walsh.push_back((logs[i] + logs[j]) / 2);
  std::sort(walsh.begin(), walsh.end());
  return {(walsh[38] + walsh[39]) / 2, walsh[13], walsh[64]};
}

// The measured ratio of two equally fast programs, from 12 blocks on a noisy machine.
Interval ratio_of_equals(Noise noise, tinytorch::Generator& random) {
  const auto seconds = noise_factors(noise, 12 * 4, random);
  size_t turn = 0;
  const auto blocks = tinytorch::benchmarking::abba_blocks(12, random.below(uint64_t{1} << 62));
  const auto values = tinytorch::benchmarking::take_turns(blocks, [&](size_t) { return seconds[turn++]; });
  return tinytorch::statistics::paired_ratio(values[0], values[1]).value();
}

}  // namespace

TEST_CASE("score and interval are the textbook's, from the samples") {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    Results all;
    std::array<double, 3> mean{};
    for (const std::string& s : kScenarios) {
      const auto d = played({.scenario = s, .speedup = 1.3, .noise = 0.4, .seed = seed});
      add(all, 2, d);
      const auto log = log_ratio_by_hand(d);
      for (size_t k = 0; k < 3; ++k) mean[k] += log[k] / 2;
    }
    const Standing s = of(standings(all, kScenarios), 2);
    REQUIRE(s.score);
    CHECK(s.score->estimate == doctest::Approx(100 * std::exp(mean[0])).epsilon(1e-12));
    CHECK(s.score->low == doctest::Approx(100 * std::exp(mean[1])).epsilon(1e-12));
    CHECK(s.score->high == doctest::Approx(100 * std::exp(mean[2])).epsilon(1e-12));
    CHECK(s.cells.size() == 2);
    CHECK(s.not_ranked == "");
    CHECK(of(standings(all, kScenarios), kBase).score->estimate == 100);
  }
}

TEST_CASE("a score's interval holds the truth in 93 to 97 % where scenarios err alike, else more often") {
  Results all;
  add_both(all, 2, {});
  std::vector<board::Result> both = all[2];
  REQUIRE(both.size() == 2);
  constexpr int kTrials = 1000;
  for (const Noise noise : {Noise::kLognormal, Noise::kLinearDrift, Noise::kBimodal}) {
    for (const bool alike : {true, false}) {
      tinytorch::Generator random(50 + static_cast<uint64_t>(noise));
      int held = 0;
      for (int i = 0; i < kTrials; ++i) {
        both[0].ratio = ratio_of_equals(noise, random);
        both[1].ratio = alike ? both[0].ratio : ratio_of_equals(noise, random);
        const auto score = of(standings({{2, both}}, kScenarios), 2).score.value();
        held += score.low <= 100 && score.high >= 100;
      }
      const double share = static_cast<double>(held) / kTrials;
      CAPTURE(name_of(noise));
      CAPTURE(alike);
      CAPTURE(share);
      CHECK(share >= (alike ? 0.93 : 0.98));
      CHECK(share <= (alike ? 0.97 : 1));
    }
  }
}

TEST_CASE("who cannot be told apart shares a rank; a certain difference is one") {
  Results all;
  add_both(all, 2, {.speedup = 1.001, .noise = 0.2, .seed = 10});
  add_both(all, 3, {.speedup = 2, .seed = 20});
  add_both(all, 4, {.speedup = 0.5, .seed = 30});
  const auto table = standings(all, kScenarios);
  REQUIRE(table.size() == 4);
  CHECK(of(table, 3).rank == 1);
  CHECK(of(table, 2).rank == 2);
  CHECK(of(table, kBase).rank == 2);
  CHECK(of(table, 4).rank == 4);
  CHECK(table.front().submission == 3);
  CHECK(table.back().submission == 4);
  for (const Standing& s : table) CHECK(s.level == Level::rerun);
}

TEST_CASE("one extreme scenario is clipped") {
  Results all;
  add_both(all, 2, {.speedup = 1000});
  CHECK(of(standings(all, kScenarios), 2).score->estimate == doctest::Approx(6400));
  Results slow;
  add_both(slow, 2, {.speedup = 0.001});
  CHECK(of(standings(slow, kScenarios), 2).score->estimate == doctest::Approx(100.0 / 64));
}

TEST_CASE("not ranked, and why") {
  const auto why = [](const RunRecipe& recipe) {
    Results all;
    add_both(all, 2, recipe);
    const Standing s = of(standings(all, kScenarios), 2);
    CHECK((s.rank == 0) == !s.not_ranked.empty());
    return s.not_ranked;
  };
  CHECK(why({}).empty());
  CHECK(why({.run_class = "smoke"}).find("smoke") != std::string::npos);
  CHECK(why({.quality = {0.82, 0.79, 0.85}}).find("below the floor of 0.8") != std::string::npos);
  CHECK(why({.quality = {0.82, 0.8, 0.85}}).empty());
  CHECK(why({.audits = {{"A2", "same sample", false, ""}}}).find("A2 (same sample)") != std::string::npos);
  CHECK(why({.audits = {{"A2", "same sample", true, ""}}}).empty());

  Results all;
  add(all, 2, played({}));
  all[3];
  auto table = standings(all, kScenarios);
  CHECK(of(table, 2).not_ranked == "not measured yet in offline");
  CHECK_FALSE(of(table, 2).score);
  CHECK(of(table, 3).not_ranked == "not measured yet");
  CHECK(of(table, 3).level == Level::self_reported);
  auto d = played({.scenario = "offline"});
  d.contenders[1].out = "it crashed";
  add(all, 2, d);
  CHECK(of(standings(all, kScenarios), 2).not_ranked == "in offline: out: it crashed");
  CHECK_FALSE(of(standings(all, kScenarios), 2).score);
}

TEST_CASE("a run without its baseline says nothing") {
  Results all;
  add_both(all, 2, {.speedup = 2});
  const auto before = of(standings(all, kScenarios), 2).score.value();
  auto d = played({.speedup = 0.1});
  d.contenders[0].out = "killed";
  add(all, 2, d);
  CHECK(of(standings(all, kScenarios), 2).score->estimate == before.estimate);
  CHECK(all[2].size() == 2);
}

TEST_CASE("all runs of the highest class count, so that a second try does not replace the first") {
  Results all;
  add_both(all, 2, {.run_class = "smoke", .speedup = 50, .seed = 1});
  add_both(all, 2, {.speedup = 1, .noise = 0, .seed = 2});
  CHECK(of(standings(all, kScenarios), 2).score->estimate == doctest::Approx(100));
  add_both(all, 2, {.speedup = 4, .noise = 0, .seed = 3});
  CHECK(of(standings(all, kScenarios), 2).score->estimate == doctest::Approx(200));
  add_both(all, 2, {.run_class = "official", .speedup = 3, .noise = 0, .seed = 4});
  CHECK(of(standings(all, kScenarios), 2).score->estimate == doctest::Approx(300));
}

TEST_CASE("audited is who passed audits in every scenario") {
  Results all;
  const std::vector<judge::AuditResult> passed{{"A2", "same sample", true, ""}};
  add(all, 2, played({.audits = passed}));
  add(all, 2, played({.scenario = "offline"}));
  CHECK(of(standings(all, kScenarios), 2).level == Level::rerun);
  Results both;
  add_both(both, 2, {.audits = passed});
  CHECK(of(standings(both, kScenarios), 2).level == Level::audited);
  CHECK(of(standings(both, kScenarios), kBase).level == Level::rerun);
}

TEST_CASE("the history names who led from when on") {
  Results all;
  const auto day = [&](int64_t submission, double speedup) {
    test::clock_now += 86400;
    add_both(all, submission, {.speedup = speedup, .seed = static_cast<uint64_t>(submission) * 100});
  };
  test::clock_now = 1.8e9;
  day(2, 2);
  day(3, 1.5);
  day(4, 3);
  const auto points = leaders(all, kScenarios);
  REQUIRE(points.size() == 2);
  CHECK(points[0].submission == 2);
  CHECK(points[0].score == doctest::Approx(200).epsilon(0.01));
  CHECK(points[1].submission == 4);
  CHECK(points[0].date < points[1].date);
  CHECK(leaders({}, kScenarios).empty());
}

TEST_CASE("who was put out, or is below the floor, is not shown as audited, whatever audits it passed") {
  const std::vector<judge::AuditResult> passed{{"A1", "agreement", true, "fine"},
                                               {"A2", "same sample", true, ""}};
  Results all;
  add_both(all, 2, {.audits = passed});
  add_both(all, 3, {.seed = 9, .audits = passed});
  all[3].back().gate = {false, "out: audit A13, repeated"};
  add_both(all, 4, {.seed = 19, .quality = {0.7, 0.6, 0.75}, .audits = passed});
  const auto table = standings(all, kScenarios);
  CHECK(of(table, 2).level == Level::audited);
  CHECK(of(table, 3).level == Level::rerun);
  CHECK(of(table, 4).level == Level::rerun);
}

TEST_CASE("a result whose audits the noise left undecided is held, not thrown out, and can be released") {
  const std::string detail = std::string(judge::kNotDecided) + "1.05 times as fast";
  Results all;
  add_both(all, 2, {.audits = {{"A1", "agreement", true, "fine"}, {"A13", "repeated", false, detail}}});
  CHECK(all[2].front().held);
  CHECK(of(standings(all, kScenarios), 2).rank == 0);
  CHECK(of(standings(all, kScenarios), 2).not_ranked ==
        "held for audit A13 (repeated) in single_stream, until somebody has looked at it");
  for (board::Result& r : all[2]) r.review = Review{true, "a quiet machine agrees", "2026-02-01"};
  CHECK(of(standings(all, kScenarios), 2).rank == 1);
  CHECK(of(standings(all, kScenarios), 2).level == Level::rerun);
}

TEST_CASE("who could not be audited is not ranked, and is not accused either") {
  const std::string detail = std::string(judge::kNotMade) + "compute-sanitizer is not installed";
  Results all;
  add_both(all, 2, {.audits = {{"A1", "agreement", true, "fine"}, {"C5", "memcheck", false, detail}}});
  add_both(all, 3,
           {.seed = 9, .audits = {{"C5", "memcheck", false, detail}, {"A9", "convergence", false, "quick"}}});
  add_both(
      all, 4,
      {.seed = 19, .audits = {{"C5", "memcheck", false, "an invalid read"}, {"A11", "leap", false, "far"}}});
  const auto table = standings(all, kScenarios);
  CHECK(of(table, 2).rank == 0);
  CHECK(of(table, 2).not_ranked ==
        "in single_stream: audit C5 (memcheck) was not made: compute-sanitizer is not installed");
  CHECK_FALSE(all[3].front().held);  // a review would not make the audit
  CHECK(of(table, 3).not_ranked.find("failed the audit A9") == 0);
  CHECK_FALSE(all[4].front().held);
  CHECK(of(table, 4).not_ranked == "failed the audit C5 (memcheck) in single_stream");
}
