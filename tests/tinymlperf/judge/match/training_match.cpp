// Matches of simulated trainers: rounds, seeds, contenders that are out or held, and the document.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <support/digits_validation.hpp>
#include <tinymlperf/judge/match/training_match.hpp>
#include <tinymlperf/judge/results/quality_gate.hpp>
#include <tinymlperf/judge/results/verify_run.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

using test::validation;

// Knows nothing for some epochs and then everything; what it knew when is luck, by its seed.
struct Simulated final : Learner {
  double epoch_seconds;
  int64_t epochs, told = 0;
  std::vector<uint64_t>& seeds;
  Simulated(double seconds, int64_t count, std::vector<uint64_t>& list)
      : epoch_seconds(seconds), epochs(count), seeds(list) {}
  double start(uint64_t seed) override {
    seeds.push_back(seed);
    epochs += static_cast<int64_t>(seed % 2);
    return 1000;
  }
  std::optional<Attempt> next(double) override {
    ++told;
    Attempt a{1000 + epoch_seconds * static_cast<double>(told), {}};
    for (const int64_t label : test::validation_labels()) {
      a.answers.emplace_back(10, 0.0f);
      a.answers.back()[static_cast<size_t>(told >= epochs ? label : (label + 1) % 10)] = 1;
    }
    return a;
  }
  LearnerEnd end() override { return {1000 * told, ""}; }
};

struct Played {
  std::vector<uint64_t> seeds;  // as they were handed out
  RunDocument document;
  const ContenderRecord& operator[](size_t i) const { return document.contenders[i]; }
};

struct Kind {
  double epoch_seconds;
  int64_t epochs;
  const char* tier = "T0";
};

// Plays a match with a limit of 60 seconds.
Played play(const std::vector<Kind>& kinds, const std::string& division = "open", size_t runs = 5) {
  Played out;
  std::vector<TrainingContender> contenders;
  for (const Kind& k : kinds) {
    TrainingContender c;
    c.record.name = "entry", c.record.tier = k.tier;
    c.start = [&out, k] {
      if (k.epochs == 0) throw std::runtime_error("it has no recipe");
      return std::make_unique<Simulated>(k.epoch_seconds, k.epochs, out.seeds);
    };
    contenders.push_back(std::move(c));
  }
  TrainingMatch(validation(), {.target = 0.9, .seconds = 60}, runs, division, 7)(contenders);
  RunDocument& d = out.document;
  d.benchmark = "ttq-dig", d.scenario = Scenario::time_to_quality, d.division = division;
  d.run_class = "ranked", d.hardware = "cpu-mt", d.date = "2026-01-31T12:00:00Z", d.seed = 7;
  d.hidden_samples = test::kValidationSamples, d.quality_metric = "accuracy", d.quality_floor = 0.9;
  d.machine = d.sandbox = Json::object();
  for (TrainingContender& c : contenders) d.contenders.push_back(std::move(c.record));
  return out;
}

const AuditResult& convergence(const ContenderRecord& c) {
  REQUIRE(c.audits.size() == 1);
  CHECK(c.audits[0].id == "A9");
  return c.audits[0];
}

}  // namespace

TEST_CASE("every run has its own seed, and the reference twice as many runs as the others") {
  const Played p = play({{1, 5}, {0.5, 5}, {2, 5}});
  CHECK(p[0].training.size() == 10);
  CHECK(p[1].training.size() == 5);
  CHECK(p[2].training.size() == 5);
  CHECK(std::set<uint64_t>(p.seeds.begin(), p.seeds.end()).size() == 20);
  CHECK(play({{1, 5}, {0.5, 5}, {2, 5}}).seeds == p.seeds);  // of the match's seed
  CHECK(p[1].peak_bytes >= 5000);
}

TEST_CASE("half the time is twice as good, and the document gives back every number") {
  const Played p = play({{1, 5}, {0.5, 5}});
  const RunDocument& d = p.document;
  const auto ratio = times_the_baseline(d.scenario, p[1], p[0]);
  REQUIRE(ratio);
  CHECK(ratio->low <= 2);
  CHECK(ratio->high >= 2);
  CHECK(ratio->low > 1.5);
  CHECK(times_the_baseline(d.scenario, p[0], p[0])->low == 1);
  CHECK(quality_gate(d, p[1]).passed);
  CHECK(convergence(p[1]).passed);
  CHECK(values_of(d.scenario, p[1]).size() == 5);

  const Json file = to_json(d);
  CHECK(file.at("schema") == "tinymlperf-run-2");
  CHECK(is_run(file));
  CHECK(to_json(read_run_document(Json::parse(file.dump()))) == file);
  CHECK(verify_run(file) == "");
  const auto changed = [&](auto&& change) {
    Json other = file;
    change(other.at("contenders")[1]);
    return verify_run(other);
  };
  CHECK(changed([](Json& c) { c["value"] = 0.1; }).find("value is 0.1") != std::string::npos);
  CHECK(changed([](Json& c) { c["quality"]["low"] = 0.1; }).find("quality") != std::string::npos);
  CHECK(changed([](Json& c) { c["training"][0]["seconds"] = 0.1; }).find("training") != std::string::npos);
  CHECK(changed([](Json& c) {
          c["training"][0]["seed"] = c["training"][1]["seed"];
        }).find("the samples say") != std::string::npos);
  const auto refused = [&](auto&& change) { CHECK_THROWS_AS(changed(change), std::invalid_argument); };
  refused([](Json& c) { c["training"][0]["qualities"].back() = 0.5; });  // a run that ends below the target
  refused([](Json& c) { c["training"][0]["ended"] = "it gave up"; });    // though it reached it
  refused([](Json& c) { c["training"][0]["times"][0] = -1; });
  refused([](Json& c) { c["training"][0]["limit"] = 1; });
  refused([](Json& c) { c["training"][0]["times"].push_back(9); });
  refused([](Json& c) { c["training"] = Json(std::vector<Json>(101, c["training"][0])); });
}

TEST_CASE("a trainer that misses the target twice is out at once, and one that cannot start says why") {
  const Played p = play({{1, 5}, {20, 5}, {1, 0}});
  CHECK(p[1].training.size() == 2);
  CHECK_MESSAGE(p[1].out.find("2 of 2 runs did not reach the target of 0.9") == 0, p[1].out);
  CHECK(p[2].out == "it has no recipe");
  CHECK(p[2].training.empty());
  CHECK(p[0].out.empty());
  CHECK_FALSE(times_the_baseline(p.document.scenario, p[1], p[0]));
  CHECK_FALSE(quality_gate(p.document, p[1]).passed);
  CHECK(p[1].audits.empty());
  CHECK(verify_run(to_json(p.document)) == "");
  // Too few runs are no result either.
  CHECK(play({{1, 5}, {1, 5}}, "open", 4)[1].out.find("at least 5 runs, found 4") != std::string::npos);
}

TEST_CASE("suspiciously few epochs are held, unless the recipe is open to see") {
  CHECK(convergence(play({{1, 9}, {1, 3}}, "open")[1]).passed);
  CHECK_FALSE(convergence(play({{1, 9}, {1, 3}}, "closed")[1]).passed);
  CHECK_FALSE(convergence(play({{1, 9}, {1, 3, "T2"}}, "open")[1]).passed);
  // Slower epochs or more of them are nobody's concern; seconds are not either.
  CHECK(convergence(play({{1, 9}, {1, 12, "T2"}}, "open")[1]).passed);
  CHECK(convergence(play({{1, 9}, {0.01, 9, "T2"}}, "open")[1]).passed);
  const std::vector<double> three(5, 3), four(10, 4);
  CHECK(suspicion(three, four) == 0);  // without any spread
  CHECK(suspicion(four, three) == 1);
  CHECK(suspicion({4, 5, 4, 5, 4}, {5, 4, 5, 4, 5, 4, 5, 4, 5, 4}) > 0.05);
}

namespace {

// The causes, besides the trainer, that decide the time of a training: its seed; a machine that becomes
// slower by a tenth; or a learner that gets stuck for a while.
enum class Luck { spread, drift, two_ways };

double lucky(Luck luck, double share_of_match, tinytorch::Generator& random) {
  const double seed = 0.4 * (random.uniform(-1.0, 1.0) + random.uniform(-1.0, 1.0));
  if (luck == Luck::drift) return std::exp(seed) * (1 + 0.1 * share_of_match);
  if (luck == Luck::two_ways) return std::exp(seed / 4) * (random.uniform() < 0.3 ? 2 : 1);
  return std::exp(seed);
}

}  // namespace

TEST_CASE("the interval of the ratio holds what is true in 93 to 97 of 100 matches, whatever luck is like") {
  tinytorch::Generator random(3);
  const auto runs = [&](size_t count, double scale, Luck luck = Luck::spread) {
    TrainingRuns out;
    for (size_t i = 0; i < count; ++i) {
      const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(count);  // of the match
      const double seconds = scale * lucky(luck, share, random);
      out.push_back({.seed = i, .limit = 1e6, .times = {seconds}, .qualities = {1}, .ended = ""});
    }
    return out;
  };
  constexpr int kMatches = 1000;
  for (const Luck luck : {Luck::spread, Luck::drift, Luck::two_ways}) {
    int held = 0;
    for (int i = 0; i < kMatches; ++i) {
      const TrainingRuns baseline = runs(10, 3, luck),
                         ours = runs(5, 1, luck);  // the same with every compiler
      const auto ratio = times_faster(ours, baseline);
      REQUIRE(ratio);
      held += ratio->low <= 3 && ratio->high >= 3;
    }
    CAPTURE(static_cast<int>(luck));
    CHECK(held >= 0.93 * kMatches);
    CHECK(held <= 0.97 * kMatches);
  }
  // A run that missed the target counts as all of its time.
  TrainingRuns missed = runs(5, 1);
  missed[0].ended = "it did not", missed[0].limit = 50;
  REQUIRE(times_faster(missed, runs(10, 3)));
  CHECK(seconds_of(missed)[0] == 50);
  CHECK(epochs_of(missed).size() == 4);
  missed[1].ended = "nor did this";
  CHECK_FALSE(times_faster(missed, runs(10, 3)));
}
