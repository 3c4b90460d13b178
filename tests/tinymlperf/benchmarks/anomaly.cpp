// Anomaly detection: what scores are worth, which may stand for each other, and that no constant stands for
// many.
#include <doctest/doctest.h>

#include <numeric>
#include <tinymlperf/benchmarks/anomaly.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;
namespace ms = tinytorch::machine_sounds;

namespace {

constexpr int64_t kClips = 60;
constexpr uint64_t kSeed = 5;

struct Drawn {
  AnomalyBenchmark benchmark;
  std::vector<int64_t> faulty = ms::mixed(kClips, kSeed).labels.to_vector<int64_t>();
  Drawn() { benchmark.draw(kClips, kSeed); }
  template <class F>
  std::vector<Answer> answers(F&& score) const {
    std::vector<Answer> out;
    for (size_t i = 0; i < faulty.size(); ++i) out.push_back({score(i, faulty[i] != 0)});
    return out;
  }
  template <class F>
  double worth(F&& score) const {
    return benchmark.quality(answers(score)).value.estimate;
  }
};
const Drawn& drawn() {
  static const Drawn d;
  return d;
}

}  // namespace

TEST_CASE("perfect, inverted, constant and random scores, at any height and scale") {
  const Drawn& d = drawn();
  for (const float scale : {1e-2f, 1.0f, 1e6f}) {
    CHECK(d.worth([&](size_t, bool faulty) { return scale * (faulty ? 2.0f : 1.0f); }) == 1);
    CHECK(d.worth([&](size_t, bool faulty) { return scale * (faulty ? -2.0f : -1.0f); }) == 0);
    CHECK(d.worth([&](size_t, bool) { return scale; }) == 0.5);
  }
  tinytorch::Generator random(1);
  const double by_chance = d.worth([&](size_t, bool) { return static_cast<float>(random.uniform(0, 1)); });
  CHECK(by_chance > 0.25);
  CHECK(by_chance < 0.75);
  CHECK(by_chance < d.benchmark.floor());
  CHECK(d.worth([](size_t, bool) { return NAN; }) == 0);
  CHECK(d.worth([](size_t, bool) { return INFINITY; }) == 0);
  const Quality q = d.benchmark.quality(
      d.answers([](size_t i, bool faulty) { return static_cast<float>(i % 7) + (faulty ? 3.0f : 0.0f); }));
  CHECK(q.value.low < q.value.estimate);
  CHECK(q.value.estimate < q.value.high);
  CHECK(q.credit.empty());
  CHECK(q.wins.positives.size() + q.wins.negatives.size() == d.faulty.size());
  CHECK(tinytorch::statistics::auc_of(q.wins) == doctest::Approx(q.value.estimate).epsilon(1e-12));
}

TEST_CASE("sums in another order agree; another score does not, whatever its size") {
  const AnomalyBenchmark& b = drawn().benchmark;
  for (const float score : {1e-5f, 0.03f, 1.0f, 1e7f, -4.0f}) {
    CAPTURE(score);
    CHECK(b.agrees({score}, {score}));
    CHECK(b.agrees({score}, {score * (1 + 1e-5f)}));
    CHECK_FALSE(b.agrees({score}, {score * 1.01f + 1e-5f}));
    CHECK_FALSE(b.agrees({score}, {-score}));
  }
  CHECK_FALSE(b.agrees({1.0f}, {NAN}));
  CHECK_FALSE(b.agrees({NAN}, {NAN}));
  CHECK_FALSE(b.agrees({INFINITY}, {INFINITY}));
}

TEST_CASE("scores that one constant could stand for are worth no more than the constant") {
  const Drawn& d = drawn();
  for (const float height : {1e-4f, 1.0f, 1e5f}) {
    CAPTURE(height);
    // Doubles the step while a constant between both values agrees with each of them.
    float step = 1e-7f * height;
    while (d.benchmark.agrees({height + 2 * step}, {height}) &&
           d.benchmark.agrees({height - 2 * step}, {height}))
      step *= 2;
    const auto graded = [&](size_t, bool faulty) { return height + (faulty ? step : -step); };
    for (const Answer& a : d.answers(graded)) CHECK(d.benchmark.agrees(a, {height}));
    CHECK(d.worth(graded) == 0.5);
  }
}

TEST_CASE("clips follow from the seed, faulty and healthy, none from a published one") {
  const AnomalyBenchmark& b = drawn().benchmark;
  CHECK(b.size() == kClips);
  const std::vector<int64_t> asked{3, 0};
  const auto clips = b.inputs(asked);
  REQUIRE(clips.size() == 1);
  CHECK(clips[0].shape == std::vector<int64_t>{2, 12, 640});
  const auto windows = ms::mixed(4, kSeed).windows.to_vector<float>();
  const auto values = clips[0].values<float>();
  const std::ptrdiff_t clip = 12 * 640;
  CHECK(std::equal(values.begin(), values.begin() + clip, windows.begin() + 3 * clip));
  CHECK(std::equal(values.begin() + clip, values.end(), windows.begin()));
  AnomalyBenchmark other;
  other.draw(4, kSeed + 1);
  CHECK(other.inputs(asked)[0].bytes != clips[0].bytes);
  const int64_t faults = std::accumulate(drawn().faulty.begin(), drawn().faulty.end(), int64_t{0});
  CHECK(faults > kClips / 4);
  CHECK(faults < 3 * kClips / 4);
  for (const uint64_t published : {kTrainingSeed, kValidationSeed})
    CHECK_THROWS_AS(other.draw(4, published), std::invalid_argument);
}
