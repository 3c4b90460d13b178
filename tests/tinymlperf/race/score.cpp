// Scores of made-up measurements whose answer is known without running the code.
#include <doctest/doctest.h>

#include <tinymlperf/race/score.hpp>

using tinymlperf::Block;
using tinymlperf::Measurement;
using tinymlperf::Result;
using tinymlperf::Rules;
using tinymlperf::score_race;

namespace {

// `blocks` blocks of 20 single and 3 batch times around the given seconds, with a relative spread.
Measurement entry(const char* name, double single, double batch, double spread = 0.01, size_t blocks = 8) {
  Measurement m;
  m.name = name;
  tinytorch::Generator random(std::hash<std::string>{}(name));
  for (size_t b = 0; b < blocks; ++b) {
    Block block;
    for (int i = 0; i < 20; ++i) block.single.push_back(single * random.uniform(1 - spread, 1 + spread));
    for (int i = 0; i < 3; ++i) block.batch.push_back(batch * random.uniform(1 - spread, 1 + spread));
    m.blocks.push_back(block);
  }
  m.correct = 1900;
  m.tested = 2000;
  m.parameters = 100;
  m.file_bytes = 1000;
  m.peak_bytes_single = 5000;
  return m;
}

const Result& find(const std::vector<Result>& results, const std::vector<Measurement>& all,
                   const std::string& name) {
  for (const Result& r : results)
    if (all[r.index].name == name) return r;
  throw std::runtime_error("no " + name);
}

const Rules kRules{.baseline = "base", .floor = 0.9, .draws = 1000};

}  // namespace

TEST_CASE("score is the geometric mean of both ratios, 100 for the baseline without any width") {
  // 4 times quicker on one sample, equal in batches: sqrt(4 * 1) = 2. Without spread the values are exact.
  const std::vector<Measurement> all{entry("base", 4e-3, 0.1, 0), entry("quick", 1e-3, 0.1, 0),
                                     entry("slow", 8e-3, 0.8, 0)};
  const auto results = score_race(all, kRules);
  CHECK(find(results, all, "base").score.low == doctest::Approx(100));
  CHECK(find(results, all, "base").score.high == doctest::Approx(100));
  CHECK(find(results, all, "quick").score.estimate == doctest::Approx(200));
  CHECK(find(results, all, "slow").score.estimate == doctest::Approx(25));  // sqrt(1/2 * 1/8)
  CHECK(find(results, all, "quick").throughput.estimate == doctest::Approx(2560));
  CHECK(find(results, all, "slow").p50.estimate == doctest::Approx(8e-3));
  CHECK(all[results[0].index].name == "quick");
  CHECK(results[0].rank == 1);
  CHECK(results[1].rank == 2);
  CHECK(results[2].rank == 3);
}

TEST_CASE("the single-stream half of the score reads p90, not the median") {
  Measurement base = entry("base", 1e-3, 0.1, 0), tail = entry("tail", 1e-3, 0.1, 0);
  for (Block& b : tail.blocks)
    for (int i = 0; i < 3; ++i) b.single[static_cast<size_t>(i)] = 4e-3;  // 15 % of the calls
  const std::vector<Measurement> all{base, tail};
  const auto results = score_race(all, kRules);
  const Result r = find(results, all, "tail");
  CHECK(r.p50.estimate == doctest::Approx(1e-3));
  CHECK(r.p90.estimate == doctest::Approx(4e-3));
  CHECK(r.score.estimate == doctest::Approx(50));
  CHECK(r.outliers == 24);
}

TEST_CASE("ratios are clipped to 64") {
  const std::vector<Measurement> all{entry("base", 1, 1, 0), entry("a", 1e-6, 1, 0), entry("b", 1, 1e6, 0)};
  const auto results = score_race(all, kRules);
  CHECK(find(results, all, "a").score.estimate == doctest::Approx(800));   // 100 * sqrt(64)
  CHECK(find(results, all, "b").score.estimate == doctest::Approx(12.5));  // 100 / sqrt(64)
}

TEST_CASE("efficiency weighs latency by a half, memory and size by a quarter") {
  std::vector<Measurement> all{entry("base", 1e-3, 0.1, 0), entry("small", 1e-3, 0.1, 0),
                               entry("lean", 1e-3, 0.1, 0), entry("quick", 2.5e-4, 0.1, 0)};
  all[1].file_bytes = 1000 / 10;
  all[2].peak_bytes_single = 5000 * 16;
  const auto results = score_race(all, kRules);
  CHECK(find(results, all, "small").efficiency.estimate == doctest::Approx(100 * std::pow(10, 0.25)));
  CHECK(find(results, all, "lean").efficiency.estimate == doctest::Approx(50));
  CHECK(find(results, all, "quick").efficiency.estimate == doctest::Approx(200));
}

TEST_CASE("below the floor: measured, shown last, not ranked; the lower bound decides") {
  std::vector<Measurement> all{entry("base", 1e-3, 0.1), entry("sloppy", 1e-5, 0.001),
                               entry("edge", 1e-5, 0.001)};
  all[1].correct = 1000;
  all[2].correct = 1800;  // exactly 90 %, so the lower bound of the interval is below the floor
  const auto results = score_race(all, kRules);
  REQUIRE(results.size() == 3);
  CHECK(all[results[0].index].name == "base");
  CHECK(results[0].rank == 1);
  CHECK(all[results[1].index].name == "edge");
  CHECK(results[1].rank == 0);
  CHECK(results[1].score.estimate > 700);
  CHECK(all[results[2].index].name == "sloppy");
  CHECK(results[2].rank == 0);
}

TEST_CASE("equal entries share a rank, clearly different ones do not, and the front drops the dominated") {
  std::vector<Measurement> all{entry("base", 1e-3, 0.1, 0.2), entry("twin", 1e-3, 0.1, 0.2),
                               entry("better", 5e-4, 0.05, 0.2)};
  all[2].correct = 1950;
  const auto results = score_race(all, kRules);
  CHECK(all[results[0].index].name == "better");
  CHECK(results[0].rank == 1);
  CHECK(results[1].rank == 2);
  CHECK(results[2].rank == 2);
  CHECK(results[0].on_front);
  CHECK_FALSE(results[1].on_front);
  for (const Result& r : results) {
    CHECK(r.score.low <= r.score.estimate);
    CHECK(r.score.estimate <= r.score.high);
  }
  CHECK(find(results, all, "twin").score.low < 100);
  CHECK(find(results, all, "twin").score.high > 100);
}

TEST_CASE("a slow stretch that hits both entries widens neither score") {
  // Half of the blocks run 3 times slower for everyone: blocks are resampled together, so the ratio stays
  // put.
  std::vector<Measurement> all{entry("base", 1e-3, 0.1, 0), entry("other", 2e-3, 0.2, 0)};
  for (Measurement& m : all)
    for (size_t b = 0; b < m.blocks.size(); b += 2)
      for (auto* samples : {&m.blocks[b].single, &m.blocks[b].batch})
        for (double& x : *samples) x *= 3;
  const auto results = score_race(all, kRules);
  const Result r = find(results, all, "other");
  CHECK(r.p50.high > 2.5 * r.p50.low);
  CHECK(r.score.low == doctest::Approx(50));
  CHECK(r.score.high == doctest::Approx(50));
}

TEST_CASE("the same samples and seed give the same bits; another seed does not") {
  const std::vector<Measurement> all{entry("base", 1e-3, 0.1, 0.3), entry("other", 2e-3, 0.2, 0.3)};
  const auto low = [&](uint64_t seed) {
    Rules rules = kRules;
    rules.draws = 200;
    rules.seed = seed;
    const auto results = score_race(all, rules);
    return find(results, all, "other").score.low;
  };
  CHECK(low(1) == low(1));
  CHECK(low(1) != low(2));
}

TEST_CASE("measurements that cannot be scored are refused with the reason") {
  const auto message = [](std::vector<Measurement> all) -> std::string {
    try {
      score_race(all, kRules);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "scored";
  };
  CHECK(message({}).find("baseline") != std::string::npos);
  CHECK(message({entry("other", 1, 1)}).find("\"base\"") != std::string::npos);
  CHECK(message({entry("base", 1, 1), entry("b", 1, 1, 0, 5)}).find("same number of blocks") !=
        std::string::npos);
  CHECK(message({entry("base", 1, 1, 0.1, 3)}).find("60 single calls do not support a p90") !=
        std::string::npos);
  Measurement zero = entry("base", 1, 1);
  zero.blocks[2].batch[1] = 0;
  CHECK(message({zero}).find("positive times") != std::string::npos);
  zero = entry("base", 1, 1);
  zero.tested = 0;
  CHECK(message({zero}).find("must have been measured") != std::string::npos);
}
