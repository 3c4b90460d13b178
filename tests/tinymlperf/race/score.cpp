// Tests of scores and ranks with synthetic matches, for which the results are known by calculation.
#include <doctest/doctest.h>

#include <support/made_up_race.hpp>

using namespace tinymlperf;
using test::made_up_matches;
using test::MadeUp;

namespace {

constexpr double kFloor = 0.9;

const Result& find(const std::vector<Result>& results, const Matches& m, const std::string& name) {
  for (const Result& r : results)
    if (m.offline.contenders[r.index].name == name) return r;
  throw std::runtime_error("no " + name);
}

std::string name_of(const Matches& m, const Result& r) { return m.offline.contenders[r.index].name; }

}  // namespace

TEST_CASE(
    "a score is the geometric mean of both ratios, and the baseline has 100 with an interval of width 0") {
  // "quick": 4 times faster on one sample, equal in batches: sqrt(4 * 1) = 2. Without spread the values are
  // exact.
  const Matches m =
      made_up_matches({{"base", 4e-3, 0.1, 0}, {"quick", 1e-3, 0.1, 0}, {"slow", 8e-3, 0.8, 0}});
  const auto results = score_race(m, kFloor);
  CHECK(find(results, m, "base").score.low == doctest::Approx(100));
  CHECK(find(results, m, "base").score.high == doctest::Approx(100));
  CHECK(find(results, m, "quick").score.estimate == doctest::Approx(200));
  CHECK(find(results, m, "slow").score.estimate == doctest::Approx(25));  // sqrt(1/2 * 1/8)
  CHECK(find(results, m, "quick").throughput == doctest::Approx(2560));
  CHECK(find(results, m, "slow").p90 == doctest::Approx(8e-3));
  CHECK(name_of(m, results[0]) == "quick");
  CHECK(results[0].rank == 1);
  CHECK(results[1].rank == 2);
  CHECK(results[2].rank == 3);
}

TEST_CASE("the single_stream part of the score uses p90, not the median") {
  Matches m = made_up_matches({{"base", 1e-3, 0.1, 0}, {"tail", 1e-3, 0.1, 0}});
  for (judge::Turn& turn : m.single_stream.contenders[1].turns)
    for (size_t i = 0; i < 3; ++i) turn.latencies[i] = 4e-3;  // 15 % of the calls
  const auto results = score_race(m, kFloor);
  CHECK(find(results, m, "tail").p90 == doctest::Approx(4e-3));
  CHECK(find(results, m, "tail").score.estimate == doctest::Approx(50));
}

TEST_CASE("a score is clipped to a factor of 64 around the baseline's") {
  const Matches m = made_up_matches({{"base", 1, 1, 0}, {"a", 1e-4, 1e-4, 0}, {"b", 1e4, 1e4, 0}});
  const auto results = score_race(m, kFloor);
  CHECK(find(results, m, "a").score.estimate == doctest::Approx(6400));
  CHECK(find(results, m, "b").score.estimate == doctest::Approx(100.0 / 64));
}

TEST_CASE("efficiency weights latency by 1/2, and memory and size by 1/4 each") {
  Matches m = made_up_matches(
      {{"base", 1e-3, 0.1, 0}, {"small", 1e-3, 0.1, 0}, {"lean", 1e-3, 0.1, 0}, {"quick", 2.5e-4, 0.1, 0}});
  m.single_stream.contenders[1].model_bytes = 1000 / 10;
  m.single_stream.contenders[2].peak_bytes = 5000 * 16;
  const auto results = score_race(m, kFloor);
  CHECK(find(results, m, "small").efficiency.value() == doctest::Approx(100 * std::pow(10, 0.25)));
  CHECK(find(results, m, "lean").efficiency.value() == doctest::Approx(50));
  CHECK(find(results, m, "quick").efficiency.value() == doctest::Approx(200));
}

TEST_CASE("an entry with unknown memory or size has no efficiency, but is ranked") {
  Matches m = made_up_matches({{"base", 1e-3, 0.1, 0}, {"plugin", 1e-3, 0.1, 0}, {"odd", 1e-3, 0.1, 0}});
  m.single_stream.contenders[1].peak_bytes = 0;
  m.single_stream.contenders[2].model_bytes = 0;
  auto results = score_race(m, kFloor);
  CHECK(find(results, m, "base").efficiency.value() == doctest::Approx(100));
  for (const char* name : {"plugin", "odd"}) {
    CHECK_FALSE(find(results, m, name).efficiency.has_value());
    CHECK(find(results, m, name).rank > 0);
  }
  m.single_stream.contenders[0].peak_bytes = 0;  // the baseline, without which there is no ratio
  results = score_race(m, kFloor);
  for (const Result& r : results) CHECK_FALSE(r.efficiency.has_value());
}

TEST_CASE("an entry whose lower bound of accuracy is below the floor is shown last and not ranked") {
  const Matches m = made_up_matches({{.name = "base"},
                                     {.name = "sloppy", .single = 1e-5, .batch = 1e-3, .accuracy = 0.5},
                                     {.name = "edge", .single = 1e-5, .batch = 1e-3, .accuracy = 0.9}});
  const auto results = score_race(m, kFloor);  // exactly 90 %: the interval's lower bound is below the floor
  REQUIRE(results.size() == 3);
  CHECK(name_of(m, results[0]) == "base");
  CHECK(results[0].rank == 1);
  CHECK(name_of(m, results[1]) == "edge");
  CHECK(results[1].rank == 0);
  CHECK(results[1].score.estimate > 700);
  CHECK(name_of(m, results[2]) == "sloppy");
  CHECK(results[2].rank == 0);
}

TEST_CASE("accuracy counts the hidden samples of both matches") {
  Matches m = made_up_matches({{.name = "base", .accuracy = 0.9}});
  m.offline.contenders[0].credit = std::string(3000, '1');
  CHECK(score_race(m, 0)[0].accuracy.estimate == doctest::Approx((900 + 3000) / 4000.0));
}

TEST_CASE("equal entries share a rank, different ones do not, and dominated entries are not on the front") {
  const Matches m = made_up_matches(
      {{"base", 1e-3, 0.1, 0.2}, {"twin", 1e-3, 0.1, 0.2}, {"better", 5e-4, 0.05, 0.2, 16, 0.97}});
  const auto results = score_race(m, kFloor);
  CHECK(name_of(m, results[0]) == "better");
  CHECK(results[0].rank == 1);
  CHECK(results[1].rank == 2);
  CHECK(results[2].rank == 2);
  CHECK(results[0].on_front);
  CHECK_FALSE(results[1].on_front);
  for (const Result& r : results) {
    CHECK(r.score.low <= r.score.estimate);
    CHECK(r.score.estimate <= r.score.high);
  }
  CHECK(find(results, m, "twin").score.low < 100);
  CHECK(find(results, m, "twin").score.high > 100);
}

TEST_CASE("a slow phase of the machine that affects both entries does not widen a score's interval") {
  Matches m = made_up_matches({{"base", 1e-3, 0.1, 0}, {"other", 2e-3, 0.2, 0}});
  for (judge::RunDocument* d : {&m.single_stream, &m.offline})
    for (judge::ContenderRecord& c : d->contenders)
      for (size_t t = 0; t < c.turns.size(); ++t)
        if (t / 2 % 2 == 0) {  // every second block
          c.turns[t].seconds *= 3;
          for (double& x : c.turns[t].latencies) x *= 3;
        }
  const auto results = score_race(m, kFloor);
  CHECK(find(results, m, "other").score.low == doctest::Approx(50));
  CHECK(find(results, m, "other").score.high == doctest::Approx(50));
}

TEST_CASE("matches that cannot be scored are refused with a reason") {
  const auto message = [](const Matches& m) -> std::string {
    try {
      score_race(m, kFloor);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "scored";
  };
  const auto holds = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(holds(message({}), "of the same entries"));
  Matches m = made_up_matches({{.name = "base"}, {.name = "b"}});
  m.offline.contenders.pop_back();
  CHECK(holds(message(m), "of the same entries"));
  m = made_up_matches({{.name = "base"}, {.name = "b"}});
  m.offline.contenders[1].out = "it broke";
  CHECK(holds(message(m), "of the same entries"));
  m = made_up_matches({{.name = "base"}, {.name = "b"}});
  m.offline.contenders[1].turns.resize(14);
  CHECK(holds(message(m), "different numbers of turns of b"));
  CHECK(holds(message(made_up_matches({{.name = "base", .turns = 10}})), "six blocks"));
  m = made_up_matches({{.name = "base"}, {.name = "b"}});
  std::swap(m.single_stream, m.offline);
  CHECK(holds(message(m), "expected a single_stream and an offline match"));
}
