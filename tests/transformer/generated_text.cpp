#include <tinytorch/transformer/generated_text.hpp>

#include <cmath>
#include <kv_cache/model.hpp>

using namespace tinytorch::generation;
using test::tt::GenerateOptions;

namespace {

namespace tt = tinytorch;

tt::Loc here(TT_LOC) { return loc; }
std::string letters(std::span<const int32_t> tokens) {
  std::string text;
  for (const int32_t t : tokens) text += static_cast<char>('a' + t);
  return text;
}
// Logits [61] of which token `best` has the largest.
tt::Tensor favour(int32_t best) {
  std::vector<float> x(61, 0.0f);
  x[static_cast<size_t>(best)] = 9;
  return tt::from_data(x, {61}, tt::cpu);
}

}  // namespace

TEST_CASE("a stop string ends the text before it, and no part of it is passed on") {
  const tt::Gpt2 model = test::small_gpt2();
  std::string streamed;
  GenerateOptions options{.sampling = {.temperature = 0}, .stop = {"cde"}, .decode = letters};
  options.on_token = [&](int32_t, std::string_view piece) {
    streamed += piece;
    return true;
  };
  const std::vector<int32_t> prompt = {1};
  Text text(model, prompt, options, here());
  for (const int32_t token : {1, 2, 3, 1, 2, 3, 4}) {
    CHECK(!text.done());
    text.add(favour(token), here());
  }
  CHECK(text.done());
  CHECK(streamed == "bcdb");
  const tt::Generated out = std::move(text).result();
  CHECK(out.text == "bcdb");
  CHECK(out.reason == tt::FinishReason::stop_text);
}

TEST_CASE("bias is added before all else, and log probabilities are those of the model") {
  const tt::Gpt2 model = test::small_gpt2();
  const GenerateOptions options{
      .sampling = {.temperature = 0}, .logit_bias = {{5, 20.0}, {1000, 50.0}}, .logprobs = 2};
  const std::vector<int32_t> prompt = {1};
  Text text(model, prompt, options, here());
  CHECK(!text.takes_best());
  text.add(favour(7), here());
  CHECK(text.tokens().back() == 5);
  const tt::Generated out = std::move(text).result();
  const double log_sum = std::log(std::exp(9.0) + 60);
  REQUIRE(out.logprobs.size() == 1);
  CHECK(out.logprobs[0].own == doctest::Approx(-log_sum));
  REQUIRE(out.logprobs[0].top.size() == 2);
  CHECK(out.logprobs[0].top[0].first == 7);
  CHECK(out.logprobs[0].top[0].second == doctest::Approx(9 - log_sum));
  CHECK(out.logprobs[0].top[1].first == 0);  // among equal ones the smallest
}

TEST_CASE("a text that is greedy takes the best token of a step, unless its logit is not finite") {
  const tt::Gpt2 model = test::small_gpt2();
  const std::vector<int32_t> prompt = {1};
  const GenerateOptions greedy{.sampling = {.temperature = 0}};
  Text text(model, prompt, greedy, here());
  CHECK(text.takes_best());
  text.add({.logits = {}, .best = {3, 4}, .largest = {1.0, 2.0}}, 1, here());
  CHECK(text.tokens().back() == 4);
  const tt::Tensor bad = tt::full({2, 61}, NAN, tt::f32, tt::cpu);
  test::expect_error("TT-NN-26", "NaN", [&] {
    text.add({.logits = bad, .best = {0, 0}, .largest = {NAN, NAN}}, 0, here());
  });
  for (const tt::SamplingOptions& sampling :
       {tt::SamplingOptions{}, {.temperature = 0, .repetition_penalty = 1.1}}) {
    const GenerateOptions options{.sampling = sampling};
    CHECK(!Text(model, prompt, options, {}).takes_best());
  }
}
