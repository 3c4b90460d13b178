// Training to a target with simulated learners: the end of a run, its time, and the result of several runs.
#include <doctest/doctest.h>

#include <functional>
#include <support/digits_validation.hpp>
#include <tinymlperf/judge/scenarios/time_to_quality.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf::judge;

namespace {

using test::validation;

// So many of a hundred right.
std::vector<Answer> answers(int64_t right) {
  std::vector<Answer> out;
  for (int64_t i = 0; i < test::kValidationSamples; ++i) {
    const int64_t label = test::validation_labels()[static_cast<size_t>(i)];
    out.emplace_back(10, 0.0f);
    out.back()[static_cast<size_t>(i < right ? label : (label + 1) % 10)] = 1;
  }
  return out;
}

// Answers at the given times after its start, with so many right; then it ends, or breaks.
struct Simulated final : Learner {
  std::vector<std::pair<double, int64_t>> plan;
  bool breaks = false;
  size_t said = 0;
  explicit Simulated(std::vector<std::pair<double, int64_t>> p, bool b = false)
      : plan(std::move(p)), breaks(b) {}
  double start(uint64_t) override { return 1000; }
  std::optional<Attempt> next(double until) override {
    if (said == plan.size() && breaks) throw std::runtime_error("the plugin ended");
    if (said == plan.size() || 1000 + plan[said].first > until) return std::nullopt;
    const auto [after, right] = plan[said++];
    return Attempt{1000 + after, answers(right)};
  }
};

const TrainingRules kRules{.target = 0.9, .seconds = 60, .attempts = 5};

TrainingRun run(Simulated learner) { return train_to_target(learner, validation(), kRules, 1); }
TrainingRun took(uint64_t seed, std::optional<double> seconds) {
  TrainingRun r;
  r.seed = seed, r.limit = 100;
  if (seconds)
    r.times = {*seconds}, r.qualities = {1};
  else
    r.ended = "it did not";
  return r;
}

}  // namespace

TEST_CASE("the first attempt at or above the target ends a run, and its arrival is the time") {
  const TrainingRun r = run(Simulated({{1, 50}, {2, 89}, {3, 90}, {4, 100}}));
  REQUIRE(r.seconds());
  CHECK(*r.seconds() == 3);
  CHECK(r.attempts() == 3);
  CHECK(*r.best() == doctest::Approx(0.9));
  CHECK(r.ended.empty());
  // It need not rise.
  CHECK(*run(Simulated({{1, 80}, {2, 10}, {5, 95}})).seconds() == 5);
}

TEST_CASE("a run without a time says why: too late, ended, broken, too many attempts, not all answered") {
  const auto without = [](Simulated learner) {
    const TrainingRun r = run(std::move(learner));
    CHECK_FALSE(r.seconds());
    return r;
  };
  CHECK(without(Simulated({{1, 50}, {61, 100}})).ended.find("within its time") != std::string::npos);
  CHECK(without(Simulated({{1, 50}})).ended.find("ended before") != std::string::npos);
  CHECK(without(Simulated({{1, 50}}, true)).ended == "the plugin ended");
  const TrainingRun guesser = without(Simulated({{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 100}}));
  CHECK(guesser.ended.find("5 attempts") != std::string::npos);
  CHECK(*guesser.best() == doctest::Approx(0.05));
  struct Short final : Learner {
    double start(uint64_t) override { return 0; }
    std::optional<Attempt> next(double) override { return Attempt{1, {answers(100)[0]}}; }
  } lazy;
  CHECK(train_to_target(lazy, validation(), kRules, 1).ended.find("100 samples, found 1") !=
        std::string::npos);
  // On time by its own account is late by the judge's.
  struct Late final : Learner {
    double start(uint64_t) override { return 0; }
    std::optional<Attempt> next(double) override { return Attempt{60.1, answers(100)}; }
  } late;
  CHECK_FALSE(train_to_target(late, validation(), kRules, 1).seconds());
}

TEST_CASE("the mean without the fastest and the slowest; one that never gets there is the slowest") {
  const auto all = summarize({took(1, 10), took(2, 1), took(3, 12), took(4, 14), took(5, 99)});
  REQUIRE(all.seconds);
  CHECK(*all.seconds == doctest::Approx(12));
  const auto one_missed = summarize({took(1, 10), took(2, 1), took(3, 12), took(4, 14), took(5, {})});
  REQUIRE(one_missed.seconds);
  CHECK(*one_missed.seconds == doctest::Approx(12));
  const auto two_missed = summarize({took(1, 10), took(2, 1), took(3, 12), took(4, {}), took(5, {})});
  CHECK_FALSE(two_missed.seconds);
  CHECK(two_missed.invalid.find("found 2") != std::string::npos);
  CHECK(summarize({took(1, 1), took(2, 1), took(3, 1), took(4, 1)}).invalid.find("at least 5") !=
        std::string::npos);
  CHECK(summarize({took(1, 1), took(2, 1), took(3, 1), took(4, 1), took(1, 1)}).invalid.find("1 twice") !=
        std::string::npos);
}
