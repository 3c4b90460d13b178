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
  CHECK(!text.chosen_on_device());
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

TEST_CASE("a text takes the token that a device has chosen, unless the largest logit is not finite") {
  const tt::Gpt2 model = test::small_gpt2();
  const std::vector<int32_t> prompt = {1};
  for (const double temperature : {0.0, 1.0}) {
    const GenerateOptions options{.sampling = {.temperature = temperature}};
    Text text(model, prompt, options, here());
    CHECK(text.chosen_on_device());
    CHECK(!text.choice_depends_on_tokens());
    text.add({.logits = {}, .tokens = {3, 4}, .largest = {1.0, 2.0}}, 1, here());
    CHECK(text.tokens().back() == 4);
    const tt::Tensor bad = tt::full({2, 61}, NAN, tt::f32, tt::cpu);
    test::expect_error("TT-NN-26", "NaN", [&] {
      text.add({.logits = bad, .tokens = {0, 0}, .largest = {NAN, NAN}}, 0, here());
    });
  }
  const GenerateOptions penalized{.sampling = {.repetition_penalty = 1.1}};
  CHECK(Text(model, prompt, penalized, here()).choice_depends_on_tokens());
  const GenerateOptions wrong{.sampling = {.top_p = 2}};
  test::expect_error("TT-NN-25", "top_p", [&] { Text(model, prompt, wrong, here()); });
}

TEST_CASE("choices on a device give the text that the host samples, with every option") {
  const tt::NoGrad no_grad;
  const tt::Gpt2 model = test::small_gpt2();
  const std::vector<int32_t> prompt = {1, 7, 3};
  tt::manual_seed(8);
  const GenerateOptions all[] = {
      {.seed = 1},
      {.sampling = {.temperature = 0}},
      {.sampling = {.temperature = 0.8, .top_k = 9}, .seed = 2},
      {.sampling = {.top_p = 0.8, .min_p = 0.05}, .seed = 3},
      {.sampling = {.repetition_penalty = 1.6}, .seed = 4},
      {.sampling = {.temperature = 0, .repetition_penalty = 1.3}},
      {.logit_bias = {{5, 3.0}, {9, -50.0}, {5, 1.0}, {-1, 4.0}, {1000, 9.0}}, .seed = 5},
      {.logprobs = 1, .seed = 6}};
  constexpr int64_t kTexts = std::size(all);
  std::vector<Text> host, device;
  for (const GenerateOptions& options : all) {
    host.emplace_back(model, prompt, options, here());
    device.emplace_back(model, prompt, options, here());
  }
  for (int step = 0; step < 60; ++step) {
    const tt::Tensor logits = tt::randn({kTexts, model.vocabulary()}) * 2;
    tt::TokenChoices how{std::vector<tt::TokenChoice>(kTexts)};
    for (int64_t i = 0; i < kTexts; ++i) device[static_cast<size_t>(i)].choose(how, i);
    const tt::ChosenTokens chosen = tt::choose_tokens(tt::decode_step(logits), how);
    const tt::generation::HostStep got = tt::generation::TokensOnTheWay(chosen).with(logits);
    for (size_t i = 0; i < kTexts; ++i) {
      host[i].add(logits.select(0, static_cast<int64_t>(i)).to(tt::cpu), here());
      device[i].add(got, static_cast<int64_t>(i), here());
      INFO("text ", i, ", step ", step);
      CHECK(host[i].tokens().back() == device[i].tokens().back());
    }
  }
}
