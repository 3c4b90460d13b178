#include <tinytorch/transformer/generate.hpp>

#include <tinytorch/tensor/observer.hpp>

#include "recorder.hpp"

using namespace course;

namespace {

// These are not templates, which saves compile time.
void expect_tokens(const std::string& what, const Tokens32& got, const Tokens32& want) {
  expect_equal(what, got, want);
}
void expect_lengths(const char* what, const Recorder& model, const std::vector<int64_t>& want) {
  expect_equal(std::string(what), model.lengths, want);
}
GenerateOptions greedy_options(int64_t tokens) {
  return {.max_tokens = tokens, .sampling = {.temperature = 0}};
}

}  // namespace

TEST_CASE("9.3 the prompt is computed once, and then one token in each step") {
  Recorder model(40);
  generate(model, prompt_of(7), greedy_options(6));
  expect_lengths("tokens of each forward pass, for a prompt of 7 and 6 new tokens", model,
                 {7, 1, 1, 1, 1, 1});
}

TEST_CASE("9.3 logits equal those of the whole text") {
  Recorder model(30);
  const NoGrad no_grad;
  const Tokens32 all = prompt_of(30);
  const GenerateOptions options;
  generation::Continuation next(model, 30, options, Loc::current());
  for (const size_t length : {5, 6, 7, 11, 12, 30}) {
    const Tokens32 tokens(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(length));
    expect_close("logits after " + shown(static_cast<int64_t>(length)) + " tokens",
                 next.next(tokens).to_vector<double>(), model.logits(tokens), {kVocabulary},
                 {.dtype = f64, .roundings = 1e5});
  }
}

TEST_CASE("9.3 the text is that of a model without a cache") {
  Recorder model(50), plain(50, false);
  const Tokens32 prompt = prompt_of(9);
  expect_tokens("40 tokens, greedy", generate(model, prompt, greedy_options(40)).tokens,
                model.greedy(prompt, 40));
  const Tokens32 few = prompt_of(4);
  expect_tokens("8 tokens of a model without kv_shape()", generate(plain, few, greedy_options(8)).tokens,
                plain.greedy(few, 8));
  expect_lengths("its forward passes: the whole text each time", plain, {4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("9.3 a text longer than the context goes on from its last tokens") {
  Recorder model(8);
  const Tokens32 prompt = prompt_of(5);
  expect_tokens("12 tokens behind 5, context 8", generate(model, prompt, greedy_options(12)).tokens,
                model.greedy(prompt, 12));
  const NoGrad no_grad;
  const Tokens32 many = prompt_of(20);
  expect_close("logits after 20 tokens, context 8: those of the last 8",
               generation::next_logits(model, many, 1).to_vector<double>(), model.logits(many), {kVocabulary},
               {.dtype = f64, .roundings = 1e5});
  expect_lengths("forward passes: one row while the text fits, then 8 tokens each", model,
                 {5, 1, 1, 1, 8, 8, 8, 8, 8, 8, 8, 8, 8});
}

TEST_CASE("9.3 the work of a token grows by its attention alone") {
  struct Counter : OpObserver {
    double flops = 0;
    void after(const PrimitiveBase&, const Tensors&, const Tensors&, Cost cost) override {
      flops += cost.flops;
    }
    void end_work(Cost cost) override { flops += cost.flops; }
  };
  Recorder model(32);
  const auto work_of = [&](int64_t tokens) {
    Counter counter;
    const Observing observing(counter);
    generate(model, prompt_of(1), greedy_options(tokens));
    return counter.flops;
  };
  // Token t attends to t tokens, with 4 * 12 operations each in 2 layers. For 2 N tokens these are
  // 96 (1 + 2 + ... + 2 N), which is 96 N^2 more than twice those of N tokens. All other work doubles.
  const double more = work_of(30) - 2 * work_of(15), attention = 96 * 15 * 15;
  expect("FLOPs of 30 tokens, less twice those of 15: at most " + shown(1.05 * attention) + ", got " +
             shown(more),
         more <= 1.05 * attention);
}

TEST_CASE("9.3 prompts of any lengths at once, without padding") {
  Recorder model(40);
  std::vector<TextRequest> requests;
  for (const int64_t length : {3, 9, 1, 5}) requests.push_back({prompt_of(length), greedy_options(4)});
  const std::vector<Generated> texts = generate_batch(model, requests);
  expect_lengths("tokens of each forward pass: all prompts, then one of each text", model, {18, 4, 4, 4});
  expect("4 texts", texts.size() == 4);
  for (size_t i = 0; i < 4; ++i)
    expect_tokens("text " + shown(static_cast<int64_t>(i)) + " of 4", texts[i].tokens,
                  model.greedy(requests[i].prompt, 4));
  expect("no requests, no texts", generate_batch(model, {}).empty());
}

TEST_CASE("9.3 a text of a batch that has ended costs nothing, and the others go on") {
  Recorder model(40);
  std::vector<TextRequest> requests;
  for (const auto& [length, count] : {std::pair<int64_t, int64_t>{2, 5}, {4, 1}, {3, 0}, {6, 3}})
    requests.push_back({prompt_of(length), greedy_options(count)});
  const std::vector<Generated> texts = generate_batch(model, requests);
  for (size_t i = 0; i < 4; ++i)
    expect_tokens(
        "text " + shown(static_cast<int64_t>(i)) + " of " + shown(requests[i].options.max_tokens) + " tokens",
        texts[i].tokens, model.greedy(requests[i].prompt, requests[i].options.max_tokens));
  expect_lengths("tokens of each pass: 2 + 4 + 6, then those of the texts that go on", model,
                 {12, 2, 2, 1, 1});
  // An end token.
  const Tokens32 prompt = prompt_of(4), other = prompt_of(2), wanted = model.greedy(prompt, 9);
  TextRequest ends{prompt, greedy_options(9)};
  ends.options.end_tokens = std::vector<int64_t>{wanted[3]};
  const std::vector<Generated> two =
      generate_batch(model, std::vector<TextRequest>{ends, {other, greedy_options(9)}});
  expect_tokens("a text that ends at a token", two[0].tokens, model.greedy(prompt, 9, wanted[3]));
  expect_tokens("the text beside it", two[1].tokens, model.greedy(other, 9));
}

TEST_CASE("9.3 a batch refuses a text that would have to slide") {
  Recorder model(8), plain(8, false);
  const auto refused = [](LanguageModel& m, const std::string& what, const TextRequest& request) {
    expect_throws("TT-NN-27", what, [&] { generate_batch(m, std::vector<TextRequest>{request}); });
  };
  refused(model, "5 + 9 tokens in a context of 8", {prompt_of(5), greedy_options(9)});
  refused(plain, "a model without kv_shape()", {prompt_of(2), greedy_options(2)});
  TextRequest stops{prompt_of(5), greedy_options(9)};
  stops.options.at_context_end = GenerateOptions::ContextEnd::stop;
  const std::vector<Generated> texts = generate_batch(model, std::vector<TextRequest>{stops});
  expect("a text that stops at the end of the context", texts[0].reason == FinishReason::context_end);
}
