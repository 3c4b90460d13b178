#include <tinytorch/transformer/speculative.hpp>

#include <kv_cache/model.hpp>

using namespace test;

namespace {

// Drafts that a test chooses: f(text) gives them.
class Scripted : public tt::DraftSource {
 public:
  explicit Scripted(std::function<tt::Proposal(std::span<const int32_t>, int64_t)> f) : f_(std::move(f)) {}
  tt::Proposal propose(std::span<const int32_t> text, int64_t most) override { return f_(text, most); }

 private:
  std::function<tt::Proposal(std::span<const int32_t>, int64_t)> f_;
};

// Half of the prompts are random, half consist of pieces that occur earlier in them.
std::vector<int32_t> some_prompt(tt::Generator& g, int64_t length, bool copies, int64_t vocabulary) {
  std::vector<int32_t> out;
  while (std::ssize(out) < length) {
    const int64_t from = copies && out.size() > 4 ? static_cast<int64_t>(g.below(out.size() - 1)) : -1;
    for (int64_t i = 0; i < 6; ++i)
      out.push_back(from >= 0 ? out[static_cast<size_t>(from + i) % out.size()]
                              : static_cast<int32_t>(g.below(static_cast<uint64_t>(vocabulary))));
  }
  out.resize(static_cast<size_t>(length));
  return out;
}

struct Counts {
  int64_t proposed = 0, accepted = 0;
};

// The text, its end and the calls of the callback are those of generate().
void check_equal(tt::LanguageModel& model, const std::vector<int32_t>& prompt, tt::GenerateOptions options,
                 tt::DraftSource& drafts, const tt::SpeculationOptions& how, Counts& counts) {
  std::vector<std::pair<int32_t, std::string>> calls[2];
  const auto note = [&](int i) {
    return [&calls, i](int32_t token, std::string_view piece) {
      calls[i].emplace_back(token, piece);
      return true;
    };
  };
  options.on_token = note(0);
  const tt::Generated plain = tt::generate(model, prompt, options);
  options.on_token = note(1);
  const tt::SpeculativeText out = tt::generate_speculative(model, prompt, options, drafts, how);
  CHECK(out.tokens == plain.tokens);
  CHECK(out.text == plain.text);
  CHECK(out.reason == plain.reason);
  CHECK(out.logprobs.size() == plain.logprobs.size());
  for (size_t i = 0; i < out.logprobs.size(); ++i)
    CHECK(out.logprobs[i].own == doctest::Approx(plain.logprobs[i].own));
  CHECK(calls[0] == calls[1]);
  // A pass gives a token besides the accepted ones, unless an accepted one ends the text.
  const int64_t more = out.passes + out.accepted - std::ssize(calls[1]);
  CHECK((more == 0 || more == 1));
  counts.proposed += out.proposed, counts.accepted += out.accepted;
}

std::string letters(std::span<const int32_t> tokens) {
  std::string out;
  for (const int32_t t : tokens) out += static_cast<char>('0' + t);
  return out;
}

// Logits that depend on the last token alone: row t of the table.
class Chain : public tt::LanguageModel {
 public:
  Chain(int64_t vocabulary, uint64_t seed) {
    tt::Generator generator(seed);
    table_ = 1.5 * tt::randn({vocabulary, vocabulary}, tt::f32, tt::cpu, generator);
  }
  int64_t vocabulary() const override { return table_.size(0); }
  int64_t context() const override { return 100; }
  tt::Tensor features(const tt::Tensor& tokens, tt::AttentionCache*) override {
    return tt::index_select(table_, 0, tokens.reshape({-1})).unsqueeze(0);
  }
  tt::Tensor head(const tt::Tensor& x) override { return x; }
  tt::Tensor row(int64_t token) const { return table_.select(0, token); }

 private:
  tt::Tensor table_;
};

double chi_squared(const std::vector<double>& expected, const std::vector<double>& seen, double& freedom) {
  double sum = 0;
  freedom = -1;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == 0 && seen[i] > 0) return INFINITY;
    if (expected[i] == 0) continue;
    sum += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i], ++freedom;
  }
  return sum;
}
// Returns true if a sample of the expected distribution would be as far from it less often than once in a
// million times.
bool differs(const std::vector<double>& expected, const std::vector<double>& seen) {
  double freedom = 0;
  const double x = chi_squared(expected, seen, freedom);
  return x > freedom + 5 * std::sqrt(2 * freedom) + 15;
}

}  // namespace

TEST_CASE("the rows of one pass of up to 8 rows have the bits of passes with one row") {
  tt::manual_seed(3);
  tt::Gpt2 gpt2({.vocabulary = 61, .context = 96, .features = 36, .layers = 3, .heads = 3, .deviation = 0.3});
  gpt2.eval();
  tt::Llama llama(
      {.vocabulary = 61, .context = 96, .features = 48, .layers = 2, .heads = 6, .groups = 2, .hidden = 70});
  const tt::NoGrad no_grad;
  for (tt::LanguageModel* model :
       {static_cast<tt::LanguageModel*>(&gpt2), static_cast<tt::LanguageModel*>(&llama)}) {
    tt::Generator g(1);
    const std::vector<int32_t> all = some_prompt(g, 60, false, 61);
    const tt::GenerateOptions options;
    tt::generation::Continuation alone(*model, 60, options, tt::Loc::current()),
        together(*model, 60, options, tt::Loc::current());
    size_t at = 20;
    (void)alone.next(std::span(all).first(at)), (void)together.next(std::span(all).first(at));
    for (int64_t rows = 1; rows <= 8; ++rows) {
      at += static_cast<size_t>(rows);
      const tt::Tensor many = together.rows(std::span(all).first(at), rows);
      CHECK(many.shape() == tt::Shape{rows, 61});
      for (int64_t i = 0; i < rows; ++i) {
        const size_t end = at - static_cast<size_t>(rows - 1 - i);
        CHECK(difference(alone.next(std::span(all).first(end)), many.select(0, i)) == 0);
      }
    }
  }
}

TEST_CASE("greedy and sampled texts with prompt lookup are those of generate, for every number of drafts") {
  tt::Gpt2 gpt2 = small_gpt2();
  tt::Llama llama = small_llama();
  tt::Generator g(7);
  Counts counts;
  for (tt::LanguageModel* model :
       {static_cast<tt::LanguageModel*>(&gpt2), static_cast<tt::LanguageModel*>(&llama)}) {
    for (int64_t most = 1; most <= 7; ++most) {
      for (const bool copies : {false, true}) {
        for (const double temperature : {0.0, 0.3}) {
          tt::PromptLookup lookup({.least = 1 + most % 3});
          const tt::SpeculationOptions how{.most = most, .adapt = g.below(2) == 0};
          tt::GenerateOptions options{.max_tokens = 1 + static_cast<int64_t>(g.below(70)),
                                      .sampling = {.temperature = temperature},
                                      .seed = g.below(100)};
          if (g.below(3) == 0) options.sampling.repetition_penalty = 1.2;
          if (g.below(3) == 0) options.end_tokens = std::vector<int64_t>{5, 17, 40};
          if (g.below(3) == 0) options.at_context_end = tt::GenerateOptions::ContextEnd::stop;
          if (g.below(3) == 0) options.logit_bias = {{3, 4.0}, {7, -2.0}}, options.logprobs = 2;
          if (g.below(3) == 0) options.cache = false;
          if (g.below(2) == 0) options.decode = letters, options.stop = {"A", "BC"};
          const auto length = 1 + static_cast<int64_t>(g.below(80));
          check_equal(*model, some_prompt(g, length, copies, 61), options, lookup, how, counts);
        }
      }
    }
  }
  CHECK(counts.accepted > 100);
  CHECK(counts.proposed > counts.accepted + 100);
}

TEST_CASE(
    "greedy texts with a draft model are those of generate, whether it is the model itself or another") {
  tt::Gpt2 gpt2 = small_gpt2();
  tt::Llama llama = small_llama(), twin = small_llama();
  for (tt::Tensor p : twin.parameters()) {  // agrees with llama most of the time
    const tt::NoGrad no_grad;
    p.add_(0.02 * tt::randn(p.shape()));
  }
  tt::Generator g(3);
  Counts itself, similar, other;
  for (int64_t most = 1; most <= 7; ++most) {
    const std::vector<int32_t> prompt = some_prompt(g, 1 + static_cast<int64_t>(g.below(60)), true, 61);
    const tt::GenerateOptions greedy{.max_tokens = 60, .sampling = {.temperature = 0}};
    const tt::SpeculationOptions how{.most = most, .adapt = most % 2 == 0};
    tt::DraftModel a(llama), b(twin), c(gpt2);  // gpt2's context of 96 ends before the text
    check_equal(llama, prompt, greedy, a, how, itself);
    check_equal(llama, prompt, greedy, b, how, similar);
    check_equal(llama, prompt, greedy, c, how, other);
  }
  CHECK(itself.accepted == itself.proposed);
  CHECK(similar.accepted > similar.proposed / 4);
  CHECK(similar.accepted < similar.proposed);
  CHECK(other.accepted < other.proposed / 2);
  CHECK(gpt2.training() == false);
}

TEST_CASE("a rejected draft leaves the cache: the next pass begins where the text ends") {
  struct Watched : tt::Llama {
    using tt::Llama::Llama;
    tt::Tensor features(const tt::Tensor& tokens, tt::AttentionCache* cache) override {
      passes.emplace_back(cache->position(), tokens.size(1));
      return tt::Llama::features(tokens, cache);
    }
    std::vector<std::pair<int64_t, int64_t>> passes;  // cached tokens, rows
  };
  tt::manual_seed(4);
  Watched model({.vocabulary = 61, .context = 99, .features = 24, .layers = 2, .heads = 2, .hidden = 40});
  const std::vector<int32_t> prompt{1, 2, 3, 4, 5};
  const tt::GenerateOptions greedy{.max_tokens = 20, .sampling = {.temperature = 0}};
  const std::vector<int32_t> wanted = tt::generate(model, prompt, greedy).tokens;
  model.passes.clear();
  // The first `right` of four drafts are right, and `right` is 0 to 4 in turn.
  int64_t turn = 0;
  std::vector<int64_t> kept;
  Scripted drafts([&](std::span<const int32_t> text, int64_t most) {
    const int64_t right = turn++ % 5;
    tt::Proposal p;
    for (int64_t i = 0; i < std::min<int64_t>(4, most); ++i) {
      const int32_t next = wanted[text.size() - 5 + static_cast<size_t>(i)];
      p.tokens.push_back(i < right ? next : (next + 1) % 61);
    }
    kept.push_back(std::min(right, std::ssize(p.tokens)));
    return p;
  });
  const tt::SpeculativeText out = tt::generate_speculative(model, prompt, greedy, drafts, {.adapt = false});
  CHECK(out.tokens == wanted);
  REQUIRE(std::ssize(model.passes) == out.passes);
  CHECK(model.passes[0] == std::pair<int64_t, int64_t>{0, 5});
  int64_t length = 6, accepted = 0, proposed = 0;
  for (size_t i = 1; i < model.passes.size(); ++i) {
    CHECK(model.passes[i].first == length - 1);
    proposed += model.passes[i].second - 1;
    const int64_t n = i - 1 < kept.size() ? kept[i - 1] : 0;
    accepted += n, length += n + 1;
  }
  CHECK(out.accepted == accepted);
  CHECK(out.proposed == proposed);
  CHECK(length == 25);
}

TEST_CASE("a callback, a stop text and an end token in the middle of accepted drafts end the text there") {
  Chain model(9, 2);
  const std::vector<int32_t> prompt{3};
  const tt::GenerateOptions greedy{.max_tokens = 20, .sampling = {.temperature = 0}, .decode = letters};
  const tt::Generated whole = tt::generate(model, prompt, greedy);
  Scripted right([&](std::span<const int32_t> text, int64_t most) {
    tt::Proposal p;
    for (size_t i = text.size() - 1; std::ssize(p.tokens) < most; ++i) p.tokens.push_back(whole.tokens[i]);
    return p;
  });
  Counts counts;
  for (size_t n = 0; n < 12; ++n) {
    tt::GenerateOptions o = greedy;
    o.max_tokens = static_cast<int64_t>(n);
    check_equal(model, prompt, o, right, {.adapt = false}, counts);
    o = greedy;
    o.end_tokens = std::vector<int64_t>{whole.tokens[n]};
    check_equal(model, prompt, o, right, {.adapt = false}, counts);
    o = greedy;
    o.stop = {whole.text.substr(n, 2)};
    check_equal(model, prompt, o, right, {.adapt = false}, counts);
    o = greedy;
    size_t seen = 0;
    o.on_token = [&](int32_t, std::string_view) { return ++seen <= n; };
    const tt::SpeculativeText out = tt::generate_speculative(model, prompt, o, right, {.adapt = false});
    CHECK(out.reason == tt::FinishReason::callback);
    CHECK(std::ranges::equal(out.tokens, std::span(whole.tokens).first(n + 1)));
  }
  CHECK(counts.accepted > 20);
}

TEST_CASE("accept_or_redraw gives p whatever q is; to redraw from p, or to accept likely tokens, does not") {
  constexpr int kDraws = 100'000;
  const std::vector<double> p{0.3, 0.0, 0.05, 0.4, 0.25}, q{0.1, 0.35, 0.3, 0.2, 0.05};
  std::vector<double> wanted;
  for (const double x : p) wanted.push_back(kDraws * x);
  const auto sampled = [&](auto&& next) {
    tt::Generator drafts(1), own(2);
    std::vector<double> seen(5, 0.0);
    for (int i = 0; i < kDraws; ++i)
      ++seen[static_cast<size_t>(next(tt::speculation::draw(q, drafts.uniform()), own))];
    return seen;
  };
  using tt::Generator;
  CHECK_FALSE(differs(wanted, sampled([&](int32_t d, Generator& g) {
                        return tt::speculation::accept_or_redraw(p, d, q, g);
                      })));
  const auto accepts = [&](int32_t d, Generator& g) {
    return g.uniform() * q[static_cast<size_t>(d)] < p[static_cast<size_t>(d)];
  };
  CHECK(differs(wanted, sampled([&](int32_t d, Generator& g) {
                  return accepts(d, g) ? d : tt::speculation::draw(p, g.uniform());
                })));
  CHECK(differs(wanted, sampled([&](int32_t d, Generator& g) {
                  return p[static_cast<size_t>(d)] > 0.3 ? d : tt::speculation::draw(p, g.uniform());
                })));
  CHECK(differs(wanted, sampled([&](int32_t d, Generator&) { return d; })));
  // Equal distributions: every draft is accepted.
  Generator g(1);
  for (int32_t d : {0, 2, 3, 4}) CHECK(tt::speculation::accept_or_redraw(p, d, p, g) == d);
}

TEST_CASE("over 100,000 texts each sampled text is as frequent as in plain sampling") {
  constexpr int64_t V = 5, kLength = 4;
  Chain model(V, 1), drafter(V, 2);
  // Computes how often each text of 4 tokens should be seen, from the tables alone.
  const auto expected = [&](const tt::SamplingOptions& o, int draws) {
    std::vector<double> out(V * V * V * V);
    for (size_t code = 0; code < out.size(); ++code) {
      std::vector<int32_t> text{0};
      out[code] = draws;
      for (size_t rest = code, i = 0; i < kLength; ++i, rest /= V) {
        const std::vector<double> p = tt::next_token_probabilities(model.row(text.back()), text, o);
        text.push_back(static_cast<int32_t>(rest % V));
        out[code] *= p[rest % V];
      }
    }
    return out;
  };
  const auto wrong = [&](const tt::SamplingOptions& o, tt::DraftSource& drafts, int64_t most, int draws) {
    std::vector<double> seen(V * V * V * V, 0.0);
    const std::vector<int32_t> prompt{0};
    for (int i = 0; i < draws; ++i) {
      const tt::GenerateOptions options{
          .max_tokens = kLength, .sampling = o, .seed = static_cast<uint64_t>(i)};
      const auto out =
          tt::generate_speculative(model, prompt, options, drafts, {.most = most, .adapt = false});
      size_t code = 0, power = 1;
      for (const int32_t t : out.tokens) code += power * static_cast<size_t>(t), power *= V;
      ++seen[code];
    }
    return differs(expected(o, draws), seen);
  };
  const tt::SamplingOptions plain{},
      all{.temperature = 0.8, .top_k = 4, .top_p = 0.95, .min_p = 0.02, .repetition_penalty = 1.4};
  tt::DraftModel by_model(drafter);
  CHECK_FALSE(wrong(all, by_model, 3, 100'000));
  CHECK_FALSE(wrong(plain, by_model, 2, 20'000));
  Scripted fixed([](std::span<const int32_t> text, int64_t most) {  // the token after the last one
    tt::Proposal p;
    for (int32_t t = text.back(); std::ssize(p.tokens) < most;) p.tokens.push_back(t = (t + 1) % V);
    return p;
  });
  CHECK_FALSE(wrong(all, fixed, 3, 20'000));
  // The test sees a source whose tokens were not drawn from the probabilities that it states.
  Scripted lies([](std::span<const int32_t>, int64_t most) {
    tt::Proposal p;
    for (int64_t i = 0; i < most; ++i)
      p.tokens.push_back(2), p.drawn_from.emplace_back(std::vector<double>(V, 1.0 / V));
    return p;
  });
  CHECK(wrong(plain, lies, 3, 20'000));
}

TEST_CASE("prompt lookup drafts what followed the longest, then the last place that agrees with the end") {
  tt::PromptLookup lookup;
  const auto after = [&](std::vector<int32_t> text, int64_t most) {
    return lookup.propose(text, most).tokens;
  };
  using T = std::vector<int32_t>;
  CHECK(after({1, 2, 3, 4, 9, 2, 3}, 3) == T{4, 9, 2});
  CHECK(after({1, 2, 3, 4, 7, 2, 3, 5, 8, 2, 3}, 2) == T{5, 8});     // the last of two equal places
  CHECK(after({1, 2, 3, 4, 7, 2, 3, 5, 8, 1, 2, 3}, 2) == T{4, 7});  // three tokens agree
  CHECK(after({5, 6, 5, 6, 5, 6}, 5) == T{5, 6, 5, 6, 5});           // goes on behind its own end
  CHECK(after({4, 4, 4}, 3) == T{4, 4, 4});
  CHECK(after({1, 2, 3}, 3).empty());
  CHECK(after({3, 1, 3}, 3).empty());  // one token is not enough
  CHECK(after({3}, 3).empty());
  CHECK(tt::PromptLookup({.least = 1}).propose(T{3, 1, 3}, 1).tokens == T{1});
  expect_error("TT-NN-29", "prompt lookup", [] { tt::PromptLookup none({.least = 0}); });
}

TEST_CASE("the number of drafts follows what was accepted: failures cost 3 % at most, successes get 7") {
  for (const double cost : {0.05, 0.1, 0.3, 0.5}) {
    const tt::SpeculationOptions options{.row_cost = cost};
    tt::speculation::DraftLength hopeless(options, 0), sure(options, 0);
    double spent = 0;
    int64_t last = 0;
    for (int pass = 0; pass < 500; ++pass) {
      const int64_t k = hopeless.next();
      spent += cost * static_cast<double>(k);
      hopeless.record(k, 0);
      last = sure.next();
      sure.record(last, last);
    }
    CHECK(spent <= 0.03 * 500);
    CHECK(last == 7);
    // A text that begins to repeat itself is noticed.
    int64_t passes = 0;
    for (int64_t k = 0; k < 7 && passes < 200; ++passes) {
      k = hopeless.next();
      hopeless.record(k, k);
    }
    CHECK(passes <= 64 + 40);
  }
}

TEST_CASE("a draft model of another vocabulary, options out of range and impossible drafts are refused") {
  Chain model(9, 2), other(8, 2);
  const std::vector<int32_t> prompt{3};
  const auto run = [&](tt::DraftSource& drafts, tt::SpeculationOptions how = {}) {
    return tt::generate_speculative(model, prompt, {.max_tokens = 9}, drafts, how);
  };
  tt::DraftModel wrong(other), right(model);
  expect_error("TT-NN-29", "vocabulary of 8, the model one of 9", [&] { run(wrong); });
  for (const int64_t most : {0, 8})
    expect_error("TT-NN-29", "1 <= most <= 7", [&] { run(right, {.most = most}); });
  expect_error("TT-NN-29", "row_cost", [&] { run(right, {.row_cost = -1}); });
  const std::vector<tt::Proposal> impossible{
      {.tokens = {9}},
      {.tokens = {-1}},
      {.tokens = {1, 1, 1, 1, 1, 1, 1, 1}},
      {.tokens = {1, 1}, .drawn_from = {std::vector<double>(9, 1.0 / 9)}},
      {.tokens = {1}, .drawn_from = {std::vector<double>(8, 1.0 / 8)}},
      {.tokens = {1}, .drawn_from = {{1, 0, 0, 0, 0, 0, 0, 0, 0}}}};
  for (const tt::Proposal& p : impossible) {
    Scripted source([&](std::span<const int32_t>, int64_t) { return p; });
    expect_error("TT-NN-29", "does not fit the model", [&] { run(source, {.adapt = false}); });
  }
  expect_error("TT-NN-27", "the prompt is empty", [&] { tt::generate_speculative(model, {}, {}, right); });
}
