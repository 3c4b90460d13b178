// Benchmarks that ask for a class: what answers of each kind are worth, and which samples a seed gives.
#include <doctest/doctest.h>

#include <set>
#include <tinymlperf/benchmarks/benchmarks.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

// Four classes in turn; sample i holds i.
class Quarters final : public Classification {
 public:
  Quarters() : Classification(digits_descriptor()) {}
  std::string task() const override { return "i modulo 4"; }
  double floor() const override { return 0.5; }

 protected:
  std::pair<tinytorch::Tensor, tinytorch::Tensor> generate(int64_t n, uint64_t) const override {
    std::vector<int64_t> labels;
    std::vector<float> pixels;
    for (int64_t i = 0; i < n; ++i) {
      labels.push_back(i % 4);
      pixels.insert(pixels.end(), 784, static_cast<float>(i));
    }
    return {tinytorch::from_data(pixels, {n, 1, 28, 28}), tinytorch::from_data(labels)};
  }
};

Answer one_hot(int64_t label) {
  Answer a(10, 0.0f);
  a[static_cast<size_t>(label)] = 1;
  return a;
}

}  // namespace

TEST_CASE("right, wrong, half right, always the same, and answers that are no numbers") {
  Quarters quarters;
  quarters.draw(400, 5);
  const auto worth = [&](auto&& answer) {
    std::vector<Answer> answers;
    for (int64_t i = 0; i < 400; ++i) answers.push_back(answer(i));
    return quarters.quality(answers);
  };
  const Quality all = worth([](int64_t i) { return one_hot(i % 4); });
  CHECK(all.value.estimate == 1);
  CHECK(all.value.low > 0.98);
  CHECK(worth([](int64_t i) { return one_hot(i % 4 + 1); }).value.estimate == 0);
  CHECK(worth([](int64_t) { return one_hot(2); }).value.estimate == 0.25);
  const Quality half = worth([](int64_t i) { return one_hot(i < 200 ? i % 4 : 9); });
  CHECK(half.value.estimate == 0.5);
  CHECK(half.value.low < 0.47);
  CHECK(half.value.high > 0.53);
  CHECK(half.credit[0] == 1);
  CHECK(half.credit[399] == 0);
  // Equal scores are the first class, and what is not a number is none.
  CHECK(worth([](int64_t) { return Answer(10, 0.5f); }).value.estimate == 0.25);
  CHECK(worth([](int64_t) { return Answer(10, NAN); }).value.estimate == 0);
  CHECK(worth([](int64_t i) {
          Answer a = one_hot(i % 4);
          a[9] = NAN;
          return a;
        }).value.estimate == 0);
  CHECK(worth([](int64_t i) { return Answer(10, i % 4 == 0 ? INFINITY : -INFINITY); }).value.estimate ==
        0.25);
}

TEST_CASE("a timed answer agrees when it names the class of the graded one, by whatever scores") {
  const Quarters quarters;
  CHECK(quarters.agrees(one_hot(3), {0, 0, 0, 0.1f, 0, 0, 0, 0, 0, 0}));
  CHECK_FALSE(quarters.agrees(one_hot(3), one_hot(4)));
  CHECK_FALSE(quarters.agrees(one_hot(0), Answer(10, NAN)));
}

TEST_CASE("inputs are the samples that were asked, in that order and in the task's shape") {
  Quarters quarters;
  quarters.draw(10, 5);
  const std::vector<int64_t> asked{7, 0, 7};
  const auto inputs = quarters.inputs(asked);
  REQUIRE(inputs.size() == 1);
  CHECK(inputs[0].shape == std::vector<int64_t>{3, 1, 28, 28});
  const auto values = inputs[0].values<float>();
  CHECK(values[0] == 7);
  CHECK(values[784] == 0);
  CHECK(values[3 * 784 - 1] == 7);
}

TEST_CASE("digits and keywords: a set follows from its seed, and no published seed draws one") {
  for (const char* id : {"dig", "kws"}) {
    CAPTURE(id);
    const auto bytes = [&](uint64_t seed) {
      const auto benchmark = make_benchmark(id);
      benchmark->draw(20, seed);
      CHECK(benchmark->size() == 20);
      std::vector<int64_t> all(20);
      std::iota(all.begin(), all.end(), 0);
      const auto inputs = benchmark->inputs(all);
      const Task& task = task_of(id);
      CHECK(inputs[0].bytes.size() ==
            20 * sizeof(float) *
                static_cast<size_t>(
                    std::accumulate(task.input.begin(), task.input.end(), int64_t{1}, std::multiplies<>())));
      return inputs[0].bytes;
    };
    CHECK(bytes(5) == bytes(5));
    CHECK(bytes(5) != bytes(6));
    for (const uint64_t published : {kTrainingSeed, kValidationSeed})
      CHECK_THROWS_AS(make_benchmark(id)->draw(20, published), std::invalid_argument);
  }
}

TEST_CASE("what a bundled entry answers is what its benchmark asks for") {
  for (const char* id : {"dig", "kws"}) {
    CAPTURE(id);
    const auto benchmark = make_benchmark(id);
    CHECK(benchmark->id() == id);
    CHECK(benchmark->answer_size() == task_of(id).outputs);
    CHECK(benchmark->floor() > 0);
    CHECK(benchmark->floor() < 1);
  }
}
