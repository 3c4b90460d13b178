// The answers of a server beside other queries: they are found, some are kept, and each of these is compared
// with one that was given alone.
#include <doctest/doctest.h>

#include <support/scene.hpp>
#include <tinymlperf/benchmarks/digits.hpp>
#include <tinymlperf/entries/plugin.hpp>
#include <tinymlperf/judge/match/beside.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

constexpr float kInk = 0.5f;

// The mean of the first half of the pixels; with "worse" a little more from the tenth query on.
int mean_of_half(const hostile::Arguments& args) {
  int64_t queries = 0;
  return serve([&, worse = args.at(0) == "worse"](const Query& query) -> Tensors {
    const auto pixels = query.inputs.at(0).values<float>();
    std::vector<float> scores(10);
    for (const float x : pixels.first(392)) scores[0] += x;
    scores[1] = kInk + (worse && ++queries >= 10 ? 100.0f : 0);
    return {make_tensor({10}, scores)};
  });
}

[[gnu::constructor]] void start_as_child(int argc, char** argv) {
  hostile::maybe_perform(argc, argv, {{"half", mean_of_half}});
}

QueryRecord query(double asked, double answered) { return {{0}, asked, asked, answered, {}}; }

}  // namespace

TEST_CASE("a query is beside another one if both were open at one moment") {
  CHECK(asked_beside_others({}).empty());
  CHECK(asked_beside_others({query(0, 1)}) == std::vector{false});
  CHECK(asked_beside_others({query(0, 1), query(2, 3), query(4, 5)}) == std::vector{false, false, false});
  CHECK(asked_beside_others({query(0, 1), query(0.5, 3), query(4, 5)}) == std::vector{true, true, false});
  // The first one is open for as long as all others together.
  CHECK(asked_beside_others({query(0, 9), query(1, 2), query(3, 4), query(10, 11)}) ==
        std::vector{true, true, true, false});
  CHECK(asked_beside_others({query(0, 1), query(1, 2)}) == std::vector{false, false});
}

TEST_CASE("each kept answer is compared with one that was given alone") {
  const test::Scene scene;
  DigitsBenchmark set;
  set.draw(20, 77);
  const auto session = [&](const char* kind) {
    auto out = std::make_unique<channel::Session>(scene.child({"half", kind}), scene.policy,
                                                  test::machines()[0].offers);
    out->prepare("dig", 30);
    return out;
  };
  std::vector<AnswerBeside> kept;
  for (int64_t s = 0; s < 20; ++s) {
    const std::vector<int64_t> one{s};
    const auto inputs = set.inputs(one);
    Answer answer(10);
    for (const float x : inputs[0].values<float>().first(392)) answer[0] += x;
    answer[1] = kInk;
    kept.push_back({s, answer});
  }
  ContenderRecord good, bad;
  check_alone(*session("the same"), set, kept, 30, good);
  CHECK(good.evidence.beside == 20);
  CHECK(good.audits.empty());
  CHECK_THROWS_WITH_AS(check_alone(*session("worse"), set, kept, 30, bad),
                       "audit A15, batch invariance: sample 9 was answered differently beside other queries",
                       std::runtime_error);
  REQUIRE(bad.audits.size() == 1);
  CHECK(bad.audits[0].id == "A15");
  CHECK_FALSE(bad.audits[0].passed);
  CHECK_FALSE(bad.evidence.beside);
}
