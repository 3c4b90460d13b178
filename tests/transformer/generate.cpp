#include <tinytorch/transformer/generate.hpp>

#include <support/errors.hpp>
#include <support/few.hpp>
#include <tinytorch/profiling/cost.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/llama.hpp>

namespace tt = tinytorch;

namespace {

// A model in which token t + 1 follows token t almost surely. It records the lengths of its inputs.
class Counter : public tt::LanguageModel {
 public:
  int64_t vocabulary() const override { return 128; }
  int64_t context() const override { return 4; }
  tt::Tensor features(const tt::Tensor& tokens, tt::AttentionCache*) override {
    require_tokens(tokens);
    lengths.push_back(tokens.size(1));
    was_training = was_training || training();
    return tokens.to(tt::f32).unsqueeze(-1);  // [B, T, 1]
  }
  tt::Tensor head(const tt::Tensor& x) override {
    const tt::Tensor wanted = tt::arange(0, 128, 1, tt::f32) - 1;
    return -100 * tt::abs(x - wanted);
  }
  std::vector<int64_t> end_tokens() const override { return ends; }
  std::vector<int64_t> lengths, ends;
  bool was_training = false;
};

std::string ascii(std::span<const int32_t> tokens) {
  std::string out;
  for (const int32_t t : tokens) out += static_cast<char>(t);
  return out;
}
const std::vector<int32_t> kPrompt = {'a'};
const std::vector<int32_t> kPrompt16 = {3, 1, 4, 1, 5};
using Ends = std::vector<int64_t>;

struct Streamed {
  tt::Generated out;
  std::vector<std::string> pieces;
  std::string joined() const {
    std::string all;
    for (const std::string& piece : pieces) all += piece;
    return all;
  }
};
Streamed stream(tt::LanguageModel& model, tt::GenerateOptions options) {
  Streamed s;
  options.on_token = [&](int32_t, std::string_view piece) {
    s.pieces.emplace_back(piece);
    return true;
  };
  s.out = tt::generate(model, kPrompt, options);
  return s;
}

}  // namespace

TEST_CASE("generates up to max_tokens, with the input cut to the model's context") {
  Counter model;
  const tt::Generated out = tt::generate(model, kPrompt, {.max_tokens = 6, .decode = ascii});
  CHECK(out.tokens == std::vector<int32_t>{'b', 'c', 'd', 'e', 'f', 'g'});
  CHECK(out.text == "bcdefg");
  CHECK(out.reason == tt::FinishReason::max_tokens);
  CHECK(model.lengths == std::vector<int64_t>{1, 2, 3, 4, 4, 4});
  CHECK_FALSE(model.was_training);
  CHECK(model.training());
  CHECK(tt::generate(model, kPrompt, {.max_tokens = 0}).tokens.empty());
}

TEST_CASE("an end token ends the text and is not part of it") {
  Counter model;
  const Streamed s = stream(model, {.end_tokens = Ends{'z', 'e'}, .stop = {"dq"}, .decode = ascii});
  CHECK(s.out.text == "bcd");
  CHECK(s.out.tokens == std::vector<int32_t>{'b', 'c', 'd'});
  CHECK(s.out.reason == tt::FinishReason::end_token);
  CHECK(s.pieces == std::vector<std::string>{"b", "c", "", "d"});
}

TEST_CASE("the model's end tokens are the default; an empty list disables them") {
  Counter model;
  model.ends = {'q', 'd'};
  const tt::Generated out = tt::generate(model, kPrompt, {.max_tokens = 6, .decode = ascii});
  CHECK(out.text == "bc");
  CHECK(out.reason == tt::FinishReason::end_token);
  CHECK(tt::generate(model, kPrompt, {.max_tokens = 6, .end_tokens = Ends{}, .decode = ascii}).text ==
        "bcdefg");
  CHECK(tt::generate(model, kPrompt, {.max_tokens = 6, .end_tokens = Ends{'f'}, .decode = ascii}).text ==
        "bcde");
  CHECK(
      tt::Gpt2({.vocabulary = 9, .context = 4, .features = 4, .layers = 1, .heads = 1, .end_tokens = {3, 5}})
          .end_tokens() == Ends{3, 5});
}

TEST_CASE("stop strings end the text; a possible beginning of one is held back") {
  Counter model;
  const Streamed s = stream(model, {.stop = {"fgh", "efx", "zz"}, .decode = ascii});
  CHECK(s.out.text == "bcde");
  CHECK(s.out.reason == tt::FinishReason::stop_text);
  CHECK(s.pieces == std::vector<std::string>{"b", "c", "d", "", "", "e", ""});
  const Streamed no_stop = stream(model, {.max_tokens = 5, .stop = {"fgh"}, .decode = ascii});
  CHECK(no_stop.out.text == "bcdef");
  CHECK(no_stop.pieces.back() == "f");  // at the end nothing is held back
}

TEST_CASE("characters of several bytes are passed on whole") {
  Counter model;
  // Token 'b' is the first byte of the euro sign, 'c' and 'd' the others; 'e' and 'f' are letters.
  const auto bytes = [](std::span<const int32_t> tokens) {
    const std::string all = "\xe2\x82\xac-x";
    return all.substr(0, tokens.size());
  };
  const Streamed s = stream(model, {.max_tokens = 5, .decode = bytes});
  CHECK(s.pieces == std::vector<std::string>{"", "", "\xe2\x82\xac", "-", "x"});
  // A decoder that emits U+FFFD for unfinished characters.
  const auto replaced = [&](std::span<const int32_t> tokens) {
    return tokens.size() < 3 ? std::string("\xef\xbf\xbd") : bytes(tokens);
  };
  const Streamed r = stream(model, {.max_tokens = 5, .decode = replaced});
  CHECK(r.pieces == s.pieces);
  CHECK(r.joined() == r.out.text);
}

TEST_CASE("the callback receives each token and may stop generation") {
  Counter model;
  std::vector<int32_t> seen;
  const tt::Generated out =
      tt::generate(model, kPrompt, {.on_token = [&](int32_t token, std::string_view text) {
                     seen.push_back(token);
                     CHECK(text.empty());
                     return seen.size() < 3;
                   }});
  CHECK(out.reason == tt::FinishReason::callback);
  CHECK(out.tokens == seen);
  CHECK(out.text.empty());
}

TEST_CASE("a real model: the samples depend on its logits and the seed alone") {
  tt::manual_seed(1);
  tt::Gpt2 model(
      {.vocabulary = 23, .context = 10, .features = 12, .layers = 1, .heads = 3, .deviation = 0.3});
  const std::vector<int32_t> prompt = {3, 1, 4};
  const tt::GenerateOptions options{
      .max_tokens = 20, .sampling = {.temperature = 0.9, .top_k = 8}, .seed = 5};
  const tt::Generated out = tt::generate(model, prompt, options);
  CHECK(out.tokens == tt::generate(model, prompt, options).tokens);
  tt::GenerateOptions other = options;
  other.seed = 6;
  CHECK(out.tokens != tt::generate(model, prompt, other).tokens);
  // The expected tokens are computed by hand.
  model.eval();
  tt::Generator generator(5);
  std::vector<int64_t> all = {3, 1, 4};
  for (const int32_t expected : out.tokens) {
    const std::vector<int64_t> last(all.end() - std::min<std::ptrdiff_t>(10, std::ssize(all)), all.end());
    const tt::Tensor logits = model(tt::from_data(last, {1, std::ssize(last)}));
    const tt::Tensor row = logits.select(0, 0).select(0, -1).to(tt::cpu);
    const int32_t drawn = tt::sample_token(row, {}, options.sampling, generator);
    CHECK(drawn == expected);
    all.push_back(drawn);
  }
  // Greedy decoding draws no random number, so every seed gives the same result.
  tt::GenerateOptions greedy{.max_tokens = 8, .sampling = {.temperature = 0}, .seed = 1};
  const std::vector<int32_t> first = tt::generate(model, prompt, greedy).tokens;
  greedy.seed = 2;
  CHECK(tt::generate(model, prompt, greedy).tokens == first);
}

TEST_CASE("with a cache the tokens are those without one, up to the context and beyond, greedy and sampled" *
          test::long_on_emulator()) {
  tt::manual_seed(2);
  tt::Gpt2 gpt2({.vocabulary = 47, .context = 24, .features = 24, .layers = 3, .heads = 3, .deviation = 0.3});
  tt::Llama llama({.vocabulary = 47,
                   .context = 300,
                   .features = 24,
                   .layers = 2,
                   .heads = 6,
                   .groups = 2,
                   .hidden = 40,
                   .deviation = 0.3});
  for (tt::LanguageModel* model :
       {static_cast<tt::LanguageModel*>(&gpt2), static_cast<tt::LanguageModel*>(&llama)}) {
    for (const size_t length : {size_t{1}, size_t{23}, size_t{24}, size_t{31}}) {
      std::vector<int32_t> prompt(length);
      for (size_t i = 0; i < length; ++i) prompt[i] = static_cast<int32_t>(i * i % 47);
      for (const double temperature : {0.0, 0.8}) {
        tt::GenerateOptions options{
            .max_tokens = 40, .sampling = {.temperature = temperature, .top_k = 20}, .seed = 7};
        const std::vector<int32_t> cached = tt::generate(*model, prompt, options).tokens;
        options.cache = false;
        CHECK(cached == tt::generate(*model, prompt, options).tokens);
      }
    }
  }
}

TEST_CASE("a token costs one row: FLOPs of a step grow by the attention to one more token alone" *
          test::long_on_emulator()) {
  tt::manual_seed(2);
  tt::Gpt2 model({.vocabulary = 50, .context = 200, .features = 32, .layers = 2, .heads = 2});
  const std::vector<int32_t> prompt(100, 3);
  std::vector<double> flops;
  tt::profiling::CostCounter counter;
  const tt::profiling::CostCounter& read = counter;
  {
    const tt::Observing observing(counter);
    double before = 0;
    const auto on_token = [&](int32_t, std::string_view) {
      flops.push_back(read.total().flops - before);
      before = read.total().flops;
      return true;
    };
    // A text with log probabilities waits for the logits of each step, so that none is queued ahead.
    (void)tt::generate(model, prompt, {.max_tokens = 20, .logprobs = 0, .on_token = on_token});
  }
  for (size_t i = 2; i < flops.size(); ++i) CHECK(flops[i] - flops[i - 1] == 4.0 * 32 * 2);
  CHECK(flops[0] > 50 * flops[1]);  // the prompt of 100 rows
}

TEST_CASE("at the end of the context the text slides on or stops") {
  tt::manual_seed(2);
  tt::Gpt2 model({.vocabulary = 50, .context = 12, .features = 16, .layers = 1, .heads = 2});
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
  using End = tt::GenerateOptions::ContextEnd;
  const tt::Generated stopped = tt::generate(model, prompt, {.max_tokens = 50, .at_context_end = End::stop});
  CHECK(stopped.reason == tt::FinishReason::context_end);
  CHECK(stopped.tokens.size() == 8);  // the last one follows a full context
  const tt::Generated slid = tt::generate(model, prompt, {.max_tokens = 50});
  CHECK(slid.tokens.size() == 50);
  CHECK(std::equal(stopped.tokens.begin(), stopped.tokens.end(), slid.tokens.begin()));
  const std::vector<int32_t> longer(13, 1);
  CHECK(message_of([&] {
          tt::generate(model, longer, {.at_context_end = End::stop});
        }).starts_with("TT-NN-27: generate: the prompt has 13 tokens"));
  CHECK(tt::generate(model, longer, {.max_tokens = 3}).tokens.size() == 3);
}

TEST_CASE("a batch of prompts of different lengths gives the text of each, and its end" *
          test::long_on_emulator()) {
  tt::manual_seed(4);
  tt::Gpt2 gpt2({.vocabulary = 50, .context = 60, .features = 24, .layers = 2, .heads = 3, .deviation = 0.3});
  tt::Llama llama({.vocabulary = 50,
                   .context = 60,
                   .features = 24,
                   .layers = 2,
                   .heads = 6,
                   .groups = 2,
                   .hidden = 40,
                   .deviation = 0.3});
  for (tt::LanguageModel* model :
       {static_cast<tt::LanguageModel*>(&gpt2), static_cast<tt::LanguageModel*>(&llama)}) {
    std::vector<tt::TextRequest> requests;
    for (int32_t i = 0; i < 7; ++i) {
      tt::TextRequest r;
      for (int32_t t = 0; t <= i * i; ++t) r.prompt.push_back((t * 7 + i) % 50);
      r.options.max_tokens = 5 + 3 * i;
      r.options.sampling.temperature = i % 2 == 0 ? 0 : 0.7;
      r.options.seed = static_cast<uint64_t>(i);
      r.options.end_tokens = Ends{i == 3 ? 11 : 49};
      r.options.at_context_end = tt::GenerateOptions::ContextEnd::stop;
      r.options.decode = ascii;
      if (i == 5) r.options.stop = {"\x05"};
      requests.push_back(r);
    }
    const std::vector<tt::Generated> together = tt::generate_batch(*model, requests);
    REQUIRE(together.size() == requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      const tt::Generated alone = tt::generate(*model, requests[i].prompt, requests[i].options);
      CHECK(together[i].tokens == alone.tokens);
      CHECK(together[i].text == alone.text);
      CHECK(together[i].reason == alone.reason);
    }
  }
  CHECK(tt::generate_batch(gpt2, {}).empty());
  Counter without;
  const std::vector<tt::TextRequest> one{{.prompt = {1}}};
  CHECK(message_of([&] { tt::generate_batch(without, one); }).starts_with("TT-NN-27: generate_batch"));
  const std::vector<tt::TextRequest> sliding{{.prompt = {1}, .options = {.max_tokens = 61}}};
  CHECK(message_of([&] { tt::generate_batch(gpt2, sliding); }).starts_with("TT-NN-27: generate_batch"));
}

TEST_CASE("a cache of fewer bits gives a text; a cache that does not fit the model is refused") {
  tt::manual_seed(2);
  tt::Gpt2 model(
      {.vocabulary = 50, .context = 40, .features = 32, .layers = 2, .heads = 2, .deviation = 0.3});
  for (const tt::DType dtype : {tt::bf16, tt::f16, tt::i8}) {
    CHECK(tt::generate(model, kPrompt16, {.max_tokens = 20, .cache_dtype = dtype}).tokens.size() == 20);
  }
  for (const tt::KvFormat format : {tt::KvFormat::fp8, tt::KvFormat::i4}) {
    const tt::GenerateOptions options{.max_tokens = 20, .cache_format = format};
    CHECK(tt::generate(model, kPrompt16, options).tokens.size() == 20);
    const std::vector<tt::TextRequest> requests{{.prompt = kPrompt16, .options = options}};
    // The first pass of generate() attends to the prompt before it is rounded, so the texts may differ.
    CHECK(tt::generate_batch(model, requests)[0].tokens.size() == 20);
  }
  CHECK(message_of([&] { tt::generate(model, kPrompt16, {.cache_dtype = tt::f64}); }).find("f64 with f64") !=
        std::string::npos);
}

TEST_CASE("generate throws for an empty prompt and for stop strings without a decoder") {
  Counter model;
  CHECK(message_of([&] { tt::generate(model, {}); }).starts_with("TT-NN-27: generate: the prompt is empty"));
  CHECK(message_of([&] {
          tt::generate(model, kPrompt, {.stop = {"x"}});
        }).starts_with("TT-NN-27: generate: stop"));
}
