#include <tinytorch/transformer/generate.hpp>

#include <support/check.hpp>
#include <tinytorch/tensor/observer.hpp>
#include <tinytorch/transformer/gpt2.hpp>

using namespace course;

namespace {

using Tokens32 = std::vector<int32_t>;
constexpr int64_t kVocabulary = 23;

// A GPT with random matrices in f64 that records the number of tokens of each forward pass.
class Recorder : public LanguageModel {
 public:
  explicit Recorder(int64_t context, bool cached = true)
      : gpt({.vocabulary = kVocabulary,
             .context = context,
             .features = 12,
             .layers = 2,
             .heads = 3,
             .tied = false}),
        cached_(cached) {
    add("gpt", gpt);
    to(f64);
    eval();
    const NoGrad no_grad;
    for (const NamedTensor& p : named_parameters()) {
      Tensor parameter = p.tensor;
      const Shape shape = parameter.shape();
      if (shape.size() < 2) continue;  // biases would choose the same token each time
      parameter.copy_(from_data(Values::random(f64, shape, Layout::contiguous, -0.8, 0.8).numbers(), shape));
    }
  }
  int64_t vocabulary() const override { return kVocabulary; }
  int64_t context() const override { return gpt.context(); }
  KvShape kv_shape() const override { return cached_ ? gpt.kv_shape() : KvShape{}; }
  Tensor features(const Tensor& tokens, AttentionCache* cache) override {
    lengths.push_back(tokens.numel());
    return gpt.features(tokens, cache);
  }
  Tensor head(const Tensor& x) override { return gpt.head(x); }

  // The logits after these tokens, of which the context holds the last, without a cache.
  Numbers logits(const Tokens32& tokens) {
    const NoGrad no_grad;
    const auto length = std::min(std::ssize(tokens), context());
    const std::vector<int64_t> ids(tokens.end() - length, tokens.end());
    return gpt.forward(from_data(ids, {1, length}), nullptr).select(1, -1).select(0, 0).to_vector<double>();
  }
  // The new tokens of a text that takes the first of the largest logits each time.
  Tokens32 greedy(Tokens32 tokens, int64_t count, int64_t end = -1) {
    Tokens32 made;
    for (int64_t i = 0; i < count; ++i) {
      const Numbers all = logits(tokens);
      const auto next = static_cast<int32_t>(std::max_element(all.begin(), all.end()) - all.begin());
      if (next == end) break;
      tokens.push_back(next), made.push_back(next);
    }
    return made;
  }

  Gpt2 gpt;
  std::vector<int64_t> lengths;

 private:
  bool cached_;
};

Tokens32 prompt_of(int64_t length) {
  Tokens32 tokens;
  for (int64_t i = 0; i < length; ++i) tokens.push_back(static_cast<int32_t>(uniform(0, kVocabulary)));
  return tokens;
}
GenerateOptions greedy_options(int64_t tokens) {
  return {.max_tokens = tokens, .sampling = {.temperature = 0}};
}

}  // namespace

TEST_CASE("9.3 the prompt is computed once, and then one token in each step") {
  Recorder model(40);
  generate(model, prompt_of(7), greedy_options(6));
  expect_equal("tokens of each forward pass, for a prompt of 7 and 6 new tokens", model.lengths,
               std::vector<int64_t>{7, 1, 1, 1, 1, 1});
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
  expect_equal("40 tokens, greedy", generate(model, prompt, greedy_options(40)).tokens,
               model.greedy(prompt, 40));
  const Tokens32 few = prompt_of(4);
  expect_equal("8 tokens of a model without kv_shape()", generate(plain, few, greedy_options(8)).tokens,
               plain.greedy(few, 8));
  expect_equal("its forward passes: the whole text each time", plain.lengths,
               std::vector<int64_t>{4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("9.3 a text longer than the context goes on from its last tokens") {
  Recorder model(8);
  const Tokens32 prompt = prompt_of(5);
  expect_equal("12 tokens behind 5, context 8", generate(model, prompt, greedy_options(12)).tokens,
               model.greedy(prompt, 12));
  const NoGrad no_grad;
  const Tokens32 many = prompt_of(20);
  expect_close("logits after 20 tokens, context 8: those of the last 8",
               generation::next_logits(model, many).to_vector<double>(), model.logits(many), {kVocabulary},
               {.dtype = f64, .roundings = 1e5});
  expect_equal("forward passes: one row while the text fits, then 8 tokens each", model.lengths,
               std::vector<int64_t>{5, 1, 1, 1, 8, 8, 8, 8, 8, 8, 8, 8, 8});
}

TEST_CASE("9.3 the work of a token does not grow like the text, and twice the text is twice the work") {
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
  const double n = work_of(15), twice = work_of(30);
  expect("FLOPs of 30 tokens, in those of 15: at most 2.3; without a cache, 4; got " + shown(twice / n),
         twice <= 2.3 * n);
}

TEST_CASE("9.3 prompts of any lengths at once, without padding") {
  Recorder model(40);
  std::vector<TextRequest> requests;
  for (const int64_t length : {3, 9, 1, 5}) requests.push_back({prompt_of(length), greedy_options(4)});
  const std::vector<Generated> texts = generate_batch(model, requests);
  expect_equal("tokens of each forward pass: all prompts, then one of each text", model.lengths,
               std::vector<int64_t>{18, 4, 4, 4});
  expect_equal("number of texts", std::ssize(texts), int64_t{4});
  for (size_t i = 0; i < 4; ++i)
    expect_equal("text " + shown(static_cast<int64_t>(i)) + " of 4", texts[i].tokens,
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
    expect_equal(
        "text " + shown(static_cast<int64_t>(i)) + " of " + shown(requests[i].options.max_tokens) + " tokens",
        texts[i].tokens, model.greedy(requests[i].prompt, requests[i].options.max_tokens));
  expect_equal("tokens of each pass: 2 + 4 + 6, then those of the texts that go on", model.lengths,
               std::vector<int64_t>{12, 2, 2, 1, 1});
  // An end token.
  const Tokens32 prompt = prompt_of(4), other = prompt_of(2), wanted = model.greedy(prompt, 9);
  TextRequest ends{prompt, greedy_options(9)};
  ends.options.end_tokens = std::vector<int64_t>{wanted[3]};
  const std::vector<Generated> two =
      generate_batch(model, std::vector<TextRequest>{ends, {other, greedy_options(9)}});
  expect_equal("a text that ends at a token", two[0].tokens, model.greedy(prompt, 9, wanted[3]));
  expect_equal("the text beside it", two[1].tokens, model.greedy(other, 9));
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
