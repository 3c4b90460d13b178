// The next byte: what distributions are worth, which may stand for each other, and what a generation must be.
#include <doctest/doctest.h>

#include <tinymlperf/judge/benchmarks/language.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

constexpr int64_t kWindows = 200;
constexpr uint64_t kSeed = 5;

struct Drawn {
  LanguageBenchmark benchmark;
  std::string text = tinytorch::grammar::text(kWindows * (kContextBytes + 1), kSeed);
  Drawn() { benchmark.draw(kWindows, kSeed); }
  size_t came(int64_t sample) const {
    return static_cast<unsigned char>(
        text[static_cast<size_t>(sample * (kContextBytes + 1) + kContextBytes)]);
  }
  template <class F>
  tinytorch::statistics::Interval worth(F&& scores) const {
    std::vector<Answer> answers;
    for (int64_t i = 0; i < kWindows; ++i) answers.push_back(scores(i));
    const Quality q = benchmark.quality(answers);
    CHECK(tinytorch::statistics::mean(q.credit) == doctest::Approx(q.value.estimate));
    return q.value;
  }
};
const Drawn& drawn() {
  static const Drawn d;
  return d;
}

Answer uniform() { return Answer(256, 0.0f); }
Answer favour(size_t byte, float by) {
  Answer a = uniform();
  a[byte] += by;
  return a;
}
channel::Tensor bytes_of(std::vector<uint8_t> bytes) {
  return channel::make_tensor<uint8_t>(channel::DType::u8, {static_cast<int64_t>(bytes.size())}, bytes);
}

}  // namespace

TEST_CASE("certainty, ignorance, bytes by their frequency, and being wrong") {
  const Drawn& d = drawn();
  CHECK(d.worth([&](int64_t i) { return favour(d.came(i), 1000); }).estimate == 0);
  CHECK(d.worth([](int64_t) { return uniform(); }).estimate == doctest::Approx(-8));
  CHECK(d.worth([](int64_t) { return Answer(256, 3e38f); }).estimate == doctest::Approx(-8));
  CHECK(d.worth([&](int64_t i) { return favour(d.came(i), -1000); }).estimate == -32);
  CHECK(d.worth([&](int64_t i) { return favour(d.came(i), -INFINITY); }).estimate == -32);
  CHECK(d.worth([](int64_t) { return Answer(256, NAN); }).estimate == -32);
  CHECK(d.worth([](int64_t) { return Answer(256, -INFINITY); }).estimate == -32);
  CHECK(d.worth([&](int64_t i) { return favour(d.came(i), INFINITY); }).estimate == -32);
  // Half of the probability on the byte that came: one bit.
  CHECK(d.worth([&](int64_t i) { return favour(d.came(i), std::log(255.0f)); }).estimate ==
        doctest::Approx(-1));
  // Frequencies alone know more than nothing and less than a model that is good enough.
  Answer frequencies(256, -INFINITY);
  for (int byte = 0; byte < 128; ++byte) {
    const auto n = std::count(d.text.begin(), d.text.end(), static_cast<char>(byte));
    if (n > 0) frequencies[static_cast<size_t>(byte)] = std::log(static_cast<float>(n));
  }
  const auto of_frequencies = d.worth([&](int64_t) { return frequencies; });
  CHECK(of_frequencies.estimate > -5);
  CHECK(of_frequencies.estimate < d.benchmark.floor());
  CHECK(of_frequencies.low < of_frequencies.estimate);
  CHECK(of_frequencies.estimate < of_frequencies.high);
  // No model is better than the grammar itself, and the floor leaves room for one that is not perfect.
  CHECK(d.benchmark.floor() < -tinytorch::grammar::entropy_bits_per_character());
}

TEST_CASE("distributions agree when they are the same to a thousandth, whatever is added to all scores") {
  const LanguageBenchmark& b = drawn().benchmark;
  Answer moved = favour(7, 3);
  for (float& s : moved) s += 1.5f;
  CHECK(b.agrees(favour(7, 3), moved));
  CHECK(b.agrees(favour(7, 3), favour(7, 3.0001f)));
  CHECK_FALSE(b.agrees(favour(7, 3), favour(7, 3.1f)));
  CHECK_FALSE(b.agrees(favour(7, 3), favour(8, 3)));
  CHECK_FALSE(b.agrees(favour(7, 3), uniform()));
  CHECK_FALSE(b.agrees(Answer(256, NAN), Answer(256, NAN)));
}

TEST_CASE("windows follow from the seed, and the byte that is asked is not in them") {
  const Drawn& d = drawn();
  CHECK(d.benchmark.size() == kWindows);
  const std::vector<int64_t> asked{3, 0};
  const auto inputs = d.benchmark.inputs(asked);
  REQUIRE(inputs.size() == 1);
  CHECK(inputs[0].dtype == channel::DType::u8);
  CHECK(inputs[0].shape == std::vector<int64_t>{2, kContextBytes});
  const auto values = inputs[0].values<uint8_t>();
  const size_t T = kContextBytes;
  CHECK(std::string(values.begin(), values.begin() + kContextBytes) == d.text.substr(3 * (T + 1), T));
  CHECK(std::string(values.begin() + kContextBytes, values.end()) == d.text.substr(0, T));
  LanguageBenchmark other;
  other.draw(4, kSeed + 1);
  CHECK(other.inputs(asked)[0].bytes != inputs[0].bytes);
  for (const uint64_t published : {kTrainingSeed, kValidationSeed})
    CHECK_THROWS_AS(other.draw(4, published), std::invalid_argument);
}

TEST_CASE("a generation: its prompt, that what was streamed is the answer, and each token the likeliest") {
  const Drawn& d = drawn();
  const Generation* g = d.benchmark.generation();
  REQUIRE(g != nullptr);
  const size_t T = kContextBytes;
  const auto prompt = g->prompt(2);
  REQUIRE(prompt.size() == 2);
  CHECK(prompt[0].shape == std::vector<int64_t>{1, kPromptBytes});
  CHECK(prompt[1].values<int64_t>()[0] == g->tokens());
  const auto first = prompt[0].values<uint8_t>();
  CHECK(std::string(first.begin(), first.end()) == d.text.substr(2 * (T + 1), kPromptBytes));
  CHECK(kPromptBytes + g->tokens() <= kContextBytes);

  std::vector<uint8_t> continuation;
  std::vector<channel::Tensors> streamed;
  for (int64_t i = 0; i < g->tokens(); ++i) {
    continuation.push_back(static_cast<uint8_t>('a' + i % 26));
    streamed.push_back({bytes_of({continuation.back()})});
  }
  CHECK(g->check(streamed, {bytes_of(continuation)}) == continuation);
  const auto refused = [&](std::vector<channel::Tensors> tokens, const channel::Tensors& answer) {
    CHECK_THROWS_AS(g->check(tokens, answer), std::runtime_error);
  };
  auto fewer = streamed;
  fewer.pop_back();
  refused(fewer, {bytes_of(continuation)});                       // one not streamed
  refused({{bytes_of(continuation)}}, {bytes_of(continuation)});  // all at once
  auto other = streamed;
  other[3] = {bytes_of({0})};
  refused(other, {bytes_of(continuation)});  // another than in the answer
  auto short_one = continuation;
  short_one.pop_back();
  refused(fewer, {bytes_of(short_one)});  // both shorter than asked
  refused(streamed, {});
  refused(streamed, {channel::make_tensor({1}, std::vector<float>{1})});

  const auto before = g->before(2, continuation, 3);
  const auto values = before.at(0).values<uint8_t>();
  CHECK(std::string(values.begin(), values.end()) == d.text.substr(2 * (T + 1), kPromptBytes) + "abc");
  CHECK(before.at(0).shape == std::vector<int64_t>{1, kPromptBytes + 3});
  CHECK(g->likeliest(favour('d', 3), 'd'));
  CHECK_FALSE(g->likeliest(favour('d', 3), 'e'));
  CHECK(g->likeliest(uniform(), 'e'));  // as likely as any
  CHECK_FALSE(g->likeliest(Answer(256, NAN), 'd'));
}
