#include <tinytorch/core/random.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/sampling.hpp>

#include <support/check.hpp>

using namespace course;

namespace {

using Seen = std::vector<int32_t>;

Tensor logits_of(const Numbers& numbers) { return from_data(numbers); }
Numbers logs(Numbers p) {  // logits whose softmax is proportional to p
  for (double& x : p) x = std::log(x) + 3;
  return p;
}
Numbers probabilities(const Numbers& logits, const SamplingOptions& options = {}, const Seen& seen = {}) {
  return next_token_probabilities(logits_of(logits), seen, options);
}
void expect_probabilities(const std::string& what, const Numbers& logits, const SamplingOptions& options,
                          Numbers want, const Seen& seen = {}) {
  double sum = 0;
  for (const double w : want) sum += w;
  for (double& w : want) w /= sum;
  expect_close(what, probabilities(logits, options, seen), want, {static_cast<int64_t>(want.size())},
               {.dtype = f64, .roundings = 50});
}
std::string written(const Numbers& numbers) { return shown(numbers); }

Numbers fresh_logits(size_t n) {
  Numbers x(n);
  for (double& v : x) v = uniform(-3, 3);
  return x;
}
Numbers exponentials(Numbers x, double temperature = 1) {
  for (double& v : x) v = std::exp(v / temperature);
  return x;
}

}  // namespace

TEST_CASE("4.13 without options, probabilities are the softmax of the logits") {
  expect_probabilities("logits {log 1, log 2, log 5} + 3", logs({1, 2, 5}), {}, {1, 2, 5});
  const Numbers x = fresh_logits(20);
  expect_probabilities("logits " + written(x), x, {}, exponentials(x));
  expect_probabilities("one logit", {4}, {}, {1});
  expect_probabilities("logits {1000, 1001, -1000}: nothing overflows", {1000, 1001, -1000}, {},
                       {1, std::exp(1.0), 0});
}

TEST_CASE("4.13 temperature sharpens or flattens") {
  const Numbers x = fresh_logits(9);
  for (const double t : {0.25, 0.7, 3.0}) {
    expect_probabilities("temperature " + shown(t) + " of " + written(x), x, {.temperature = t},
                         exponentials(x, t));
  }
  expect_probabilities("temperature 0.001 of {1, 3, 2}: nothing overflows", {1, 3, 2}, {.temperature = 0.001},
                       {0, 1, 0});
}

TEST_CASE("4.13 temperature 0 chooses the first of the largest logits, whatever the other options") {
  expect_probabilities("temperature 0 of {1, 5, 2, 5}", {1, 5, 2, 5},
                       {.temperature = 0, .top_k = 3, .top_p = 0.5}, {0, 1, 0, 0});
  expect_probabilities("temperature 0 of {-4, -2, -3}", {-4, -2, -3}, {.temperature = 0}, {0, 1, 0});
}

TEST_CASE("4.13 top-k keeps the k largest, and all that equal the k-th") {
  const Numbers p = {3, 9, 1, 7, 5};
  expect_probabilities("top_k 1 of " + written(p), logs(p), {.top_k = 1}, {0, 9, 0, 0, 0});
  expect_probabilities("top_k 3 of " + written(p), logs(p), {.top_k = 3}, {0, 9, 0, 7, 5});
  expect_probabilities("top_k 5 of " + written(p), logs(p), {.top_k = 5}, p);
  expect_probabilities("top_k 50 of five logits: all", logs(p), {.top_k = 50}, p);
  expect_probabilities("top_k 2 of {4, 4, 1, 4}: all that equal the second are kept", logs({4, 4, 1, 4}),
                       {.top_k = 2}, {4, 4, 0, 4});
}

TEST_CASE("4.13 top-p keeps the fewest tokens whose probabilities reach p") {
  const Numbers p = {0.1, 0.4, 0.05, 0.3, 0.15};
  expect_probabilities("top_p 0.35 of " + written(p), logs(p), {.top_p = 0.35}, {0, 1, 0, 0, 0});
  expect_probabilities("top_p 0.5: two tokens, the second one reaches p", logs(p), {.top_p = 0.5},
                       {0, 0.4, 0, 0.3, 0});
  expect_probabilities("top_p 0.8", logs(p), {.top_p = 0.8}, {0, 0.4, 0, 0.3, 0.15});
  expect_probabilities("top_p 0.99", logs(p), {.top_p = 0.99}, p);
  expect_probabilities("top_p 0.0001: at least one token is kept", logs(p), {.top_p = 0.0001},
                       {0, 1, 0, 0, 0});
  expect_probabilities("top_p 0.4 of four equal tokens: the smaller token numbers are kept", {2, 2, 2, 2},
                       {.top_p = 0.4}, {1, 1, 0, 0});
}

TEST_CASE("4.13 min-p keeps tokens with at least min_p times the largest probability") {
  const Numbers p = {0.1, 0.4, 0.05, 0.3, 0.15};
  expect_probabilities("min_p 0.3 of " + written(p), logs(p), {.min_p = 0.3}, {0, 0.4, 0, 0.3, 0.15});
  expect_probabilities("min_p 0.9", logs(p), {.min_p = 0.9}, {0, 1, 0, 0, 0});
  expect_probabilities("min_p 0: all", logs(p), {.min_p = 0}, p);
}

TEST_CASE("4.13 the repetition penalty makes seen tokens less likely, each once") {
  const Numbers x = {2, -2, 1, 0.5};
  const auto want = [](Numbers logits) { return exponentials(std::move(logits)); };
  expect_probabilities("penalty 2 of {2, -2, 1, 0.5}, seen {0, 1}", x, {.repetition_penalty = 2},
                       want({1, -4, 1, 0.5}), {0, 1});
  expect_probabilities("penalty 2, seen {2, 2, 2}: applied once", x, {.repetition_penalty = 2},
                       want({2, -2, 0.5, 0.5}), {2, 2, 2});
  expect_probabilities("penalty 2, seen {3, -1, 4, 900}: numbers that are not tokens are skipped", x,
                       {.repetition_penalty = 2}, want({2, -2, 1, 0.25}), {3, -1, 4, 900});
  expect_probabilities("penalty 1", x, {}, want(x), {0, 1, 2, 3});
}

TEST_CASE("4.13 the order is penalty, temperature, top-k, top-p, min-p") {
  // top-k 3 of {8, 4, 2, 1, 1} leaves {8, 4, 2} / 14, of which the first two sum to more than 0.8.
  expect_probabilities("top_k 3, top_p 0.8 of {8, 4, 2, 1, 1}: top-p is applied to the result of top-k",
                       logs({8, 4, 2, 1, 1}), {.top_k = 3, .top_p = 0.8}, {8, 4, 0, 0, 0});
  // Temperature 2 gives the square roots {4, 3, 2, 1} / 10.
  expect_probabilities("temperature 2, top_p 0.6 of {16, 9, 4, 1}: top-p is applied after the temperature",
                       logs({16, 9, 4, 1}), {.temperature = 2, .top_p = 0.6}, {4, 3, 0, 0});
  expect_probabilities("temperature 2, min_p 0.5 of {16, 9, 4, 1}", logs({16, 9, 4, 1}),
                       {.temperature = 2, .min_p = 0.5 - 1e-9}, {4, 3, 2, 0});
  expect_probabilities("penalty 4, top_k 1 of {3, 2, 1}, seen {0}", {3, 2, 1},
                       {.top_k = 1, .repetition_penalty = 4}, {0, 1, 0}, {0});
}

TEST_CASE("4.13 draws follow the probabilities, and removed tokens are never drawn") {
  const Tensor logits = logits_of(logs({0.1, 0.4, 0.2, 0.3}));
  Generator generator(seed());
  const int n = 4000;
  Numbers counts(4);
  for (int i = 0; i < n; ++i)
    counts[static_cast<size_t>(sample_token(logits, {}, {.top_k = 3}, generator))] += 1;
  const double want[] = {0, 0.4 / 0.9, 0.2 / 0.9, 0.3 / 0.9};
  for (size_t i = 0; i < 4; ++i) {
    const double got = counts[i] / n;
    expect("share of token " + std::to_string(i) +
               " among 4000 draws of {0.1, 0.4, 0.2, 0.3}, top_k 3: " + shown(want[i]),
           want[i] == 0 ? got == 0 : std::abs(got - want[i]) < 0.05, "it is " + shown(got));
  }
}

TEST_CASE("4.13 a draw takes one number from the generator, or none at temperature 0") {
  const Tensor logits = logits_of(logs({0.25, 0.25, 0.5}));
  Generator generator(5), other(5);
  for (int i = 0; i < 20; ++i) {
    const double u = other.uniform();
    const int32_t want = u < 0.25 ? 0 : u < 0.5 ? 1 : 2;
    expect_equal("sample_token of {0.25, 0.25, 0.5} with u = " + shown(u),
                 sample_token(logits, {}, {}, generator), want);
  }
  sample_token(logits, {}, {.temperature = 0}, generator);
  expect("temperature 0 takes no number from the generator", generator.uniform() == other.uniform());
}

TEST_CASE("4.13 a token is drawn if the sum exceeds u, not if it equals u") {
  // The probabilities are u and 1 - u for the u that the generator gives next, so the first sum is u itself.
  int equal = 0;
  for (uint64_t number = 0; number < 400 && equal < 20; ++number) {
    Generator generator(seed() + number), same(seed() + number);
    const double u = same.uniform();
    const Numbers logits{std::log(u), std::log(1 - u)};
    if (probabilities(logits)[0] != u) continue;  // the softmax was rounded
    ++equal;
    expect_equal("sample_token of the probabilities {u, 1 - u} with u = " + shown(u),
                 sample_token(logits_of(logits), {}, {}, generator), 1);
  }
  expect("the softmax of {log u, log(1 - u)} is u for some of 400 u", equal > 0, "it never is");
}
