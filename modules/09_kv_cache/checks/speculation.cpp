#include <tinytorch/transformer/speculative.hpp>

#include "recorder.hpp"

using namespace course;

namespace {

// Returns the same drafts each time, and records what was asked.
class Fixed : public DraftSource {
 public:
  explicit Fixed(Proposal proposal = {}) : proposal_(std::move(proposal)) {}
  Proposal propose(std::span<const int32_t>, int64_t most) override {
    asked.push_back(most);
    return proposal_;
  }
  std::vector<int64_t> asked;

 private:
  Proposal proposal_;
};
// Drafts the tokens that follow a text in `whole`, with those wrong whose places are marked.
class Known : public DraftSource {
 public:
  Known(Tokens32 whole, bool wrong) : whole_(std::move(whole)), wrong_(whole_.size(), wrong) {}
  Known(Tokens32 whole, std::vector<bool> wrong) : whole_(std::move(whole)), wrong_(std::move(wrong)) {}
  Proposal propose(std::span<const int32_t> text, int64_t most) override {
    longest = std::max(longest, std::ssize(text) + most);
    Proposal out;
    for (size_t t = text.size(); t < whole_.size() && std::ssize(out.tokens) < most; ++t)
      out.tokens.push_back((whole_[t] + (wrong_[t] ? 1 : 0)) % static_cast<int32_t>(kVocabulary));
    return out;
  }
  int64_t longest = 0;  // text with the drafts that were asked for

 private:
  Tokens32 whole_;
  std::vector<bool> wrong_;
};
std::vector<bool> each_fourth(size_t count) {
  std::vector<bool> wrong(count);
  for (size_t i = 0; i < count; i += 4) wrong[i] = true;
  return wrong;
}
Tokens32 joined(Tokens32 text, const Tokens32& more) {
  text.insert(text.end(), more.begin(), more.end());
  return text;
}
GenerateOptions greedy_options(int64_t tokens) {
  return {.max_tokens = tokens, .sampling = {.temperature = 0}};
}
SpeculationOptions always(int64_t most) { return {.most = most, .adapt = false}; }

// These are not templates, which saves compile time.
void expect_tokens(const std::string& what, const Tokens32& got, const Tokens32& want) {
  expect_equal(what, got, want);
}
void expect_counts(const std::string& what, const std::vector<int64_t>& got,
                   const std::vector<int64_t>& want) {
  expect_equal(what, got, want);
}
std::vector<int64_t> counts_of(const SpeculativeText& text) {
  return {text.proposed, text.accepted, text.passes};
}

// Expects that `seen` is no further from `share` times its sum than all but one of a million samples are (chi
// squared).
void expect_distribution(const std::string& what, const Numbers& seen, const Numbers& share) {
  const double all = std::accumulate(seen.begin(), seen.end(), 0.0);
  double sum = 0, freedom = -1;
  Numbers found;
  for (size_t i = 0; i < seen.size(); ++i) {
    found.push_back(std::round(1e4 * seen[i] / all) / 1e4);
    if (share[i] == 0)
      expect(what + ": token " + shown(static_cast<int64_t>(i)) + " is never drawn", seen[i] == 0);
    if (share[i] == 0) continue;
    const double expected = share[i] * all;
    sum += (seen[i] - expected) * (seen[i] - expected) / expected, ++freedom;
  }
  const double most = freedom + 5 * std::sqrt(2 * std::max(freedom, 1.0)) + 15;
  expect(what + ": shares " + shown(share) + " of " + shown(all) + " draws; got " + shown(found) +
             ", chi squared " + shown(sum) + ", at most " + shown(most),
         sum <= most);
}
int32_t drawn(const Numbers& q) {
  double u = uniform(0, 1);
  for (size_t i = 0; i < q.size(); ++i)
    if ((u -= q[i]) < 0) return static_cast<int32_t>(i);
  return static_cast<int32_t>(q.size()) - 1;
}

struct Case {
  Numbers p, q;
};
const Case kCases[] = {{{0.5, 0.3, 0.2}, {0.2, 0.3, 0.5}},
                       {{0.1, 0.2, 0.3, 0.4}, {0.7, 0.1, 0.1, 0.1}},
                       {{0.6, 0.0, 0.4}, {0.3, 0.6, 0.1}},
                       {{0.25, 0.25, 0.25, 0.25}, {0.25, 0.25, 0.25, 0.25}}};

}  // namespace

TEST_CASE("9.11 tokens have the model's distribution, whatever the draft's is") {
  Generator generator(seed());
  for (const auto& [p, q] : kCases) {
    Numbers seen(p.size());
    for (int i = 0; i < 25000; ++i)
      ++seen[static_cast<size_t>(speculation::accept_or_redraw(p, drawn(q), q, generator))];
    expect_distribution("tokens, drafted from " + shown(q), seen, p);
  }
}

TEST_CASE("9.11 a draft is kept with probability p / q, and always if the model finds it more likely") {
  Generator generator(seed());
  for (const auto& [p, q] : kCases) {
    for (size_t d = 0; d < p.size(); ++d) {
      double kept = 0, all = 4000;
      Numbers instead(p.size()), rest;
      for (int i = 0; i < all; ++i) {
        const int32_t token = speculation::accept_or_redraw(p, static_cast<int32_t>(d), q, generator);
        ++(token == static_cast<int32_t>(d) ? kept : instead[static_cast<size_t>(token)]);
      }
      const double share = std::min(1.0, p[d] / q[d]), few = 5 * std::sqrt(all * share * (1 - share));
      expect("token with p " + shown(p[d]) + " and q " + shown(q[d]) + ": " + shown(share * all) + " of " +
                 shown(all) + " are kept; got " + shown(kept),
             std::abs(kept - share * all) <= few + 1e-9);
      if (kept == all) continue;
      double sum = 0;
      for (size_t i = 0; i < p.size(); ++i) rest.push_back(std::max(0.0, p[i] - q[i])), sum += rest.back();
      for (double& x : rest) x /= sum;
      expect_distribution("tokens instead of a rejected one, p " + shown(p) + ", q " + shown(q), instead,
                          rest);
    }
  }
}

TEST_CASE("9.11 right drafts: a pass writes all of them, and one token more") {
  Recorder model(60);
  const Tokens32 prompt = prompt_of(6), text = model.greedy(prompt, 21), whole = joined(prompt, text);
  Known drafts(whole, false);
  const SpeculativeText out = generate_speculative(model, prompt, greedy_options(21), drafts, always(4));
  expect_tokens("21 tokens", out.tokens, text);
  expect_counts(
      "tokens that the model computes in each pass: the prompt, then one that was written and 4 drafts",
      model.lengths, {6, 5, 5, 5, 5});
  expect_counts("proposed, accepted, passes", counts_of(out), {16, 16, 5});
}

TEST_CASE("9.11 wrong drafts: the text is the same, and what was rejected is forgotten") {
  Recorder model(60);
  const Tokens32 prompt = prompt_of(5), text = model.greedy(prompt, 12), whole = joined(prompt, text);
  Known drafts(whole, true);
  const SpeculativeText out = generate_speculative(model, prompt, greedy_options(12), drafts, always(3));
  expect_tokens("12 tokens", out.tokens, text);
  expect_counts("tokens of each pass: 3 wrong drafts each, fewer at the end", model.lengths,
                {5, 4, 4, 4, 4, 4, 4, 4, 4, 3, 2, 1});
  expect_counts("proposed, accepted, passes", counts_of(out), {27, 0, 12});
}

TEST_CASE("9.11 a draft behind a wrong one counts for nothing, even if it is right") {
  for (int turn = 0; turn < 3; ++turn) {
    Recorder model(90);
    const Tokens32 prompt = prompt_of(4), text = model.greedy(prompt, 30), whole = joined(prompt, text);
    std::vector<bool> wrong(whole.size());
    for (size_t i = 0; i < wrong.size(); ++i) wrong[i] = uniform(0, 3) < 1;
    Known drafts(whole, wrong);
    const SpeculativeText out = generate_speculative(model, prompt, greedy_options(30), drafts, always(5));
    expect_tokens("30 tokens", out.tokens, text);
    // By hand, a pass ends at the first wrong draft, whose place the model's own token takes.
    int64_t proposed = 0, accepted = 0, passes = 1;
    for (size_t at = prompt.size() + 1; at < whole.size(); ++at, ++passes) {
      const size_t most = std::min<size_t>(5, whole.size() - at - 1);
      proposed += static_cast<int64_t>(most);
      for (size_t i = 0; i < most && !wrong[at]; ++i, ++at) ++accepted;
    }
    expect_counts("proposed, accepted, passes", counts_of(out), {proposed, accepted, passes});
  }
}

TEST_CASE("9.11 no more drafts than the text may still take, and none for the prompt") {
  Recorder model(60);
  const Tokens32 prompt = prompt_of(5);
  Fixed drafts;
  const SpeculativeText out = generate_speculative(model, prompt, greedy_options(6), drafts, always(3));
  expect_tokens("a source without drafts", out.tokens, model.greedy(prompt, 6));
  expect_counts("drafts that were asked for: with 5, 4, 3, 2 tokens to write, all but the last one",
                drafts.asked, {3, 3, 2, 1});
  expect_counts("tokens of each pass", model.lengths, {5, 1, 1, 1, 1, 1});
  Fixed none;
  generate_speculative(model, prompt, greedy_options(1), none, always(3));
  expect_counts("drafts that were asked for, for a text of one token", none.asked, {});
}

TEST_CASE("9.11 a text that ends within the drafts, and one that outgrows the context") {
  Recorder model(60);
  const Tokens32 prompt = prompt_of(3), text = model.greedy(prompt, 20), whole = joined(prompt, text);
  GenerateOptions ends = greedy_options(20);
  ends.end_tokens = std::vector<int64_t>{text[9]};
  Known drafts(whole, false);
  expect_tokens("a text with an end token",
                generate_speculative(model, prompt, ends, drafts, always(7)).tokens,
                model.greedy(prompt, 20, text[9]));
  Recorder small(16);
  const Tokens32 long_text = small.greedy(prompt, 40), all = joined(prompt, long_text);
  Known more(all, each_fourth(all.size()));
  const SpeculativeText out = generate_speculative(small, prompt, greedy_options(40), more, always(5));
  expect_tokens("40 tokens behind 3, context 16", out.tokens, long_text);
  expect("no drafts beyond the context of 16: the longest text with its drafts has " + shown(more.longest),
         more.longest <= 16);
}

TEST_CASE("9.11 drafts without chance: a sampled text is that of generate() with the same seed") {
  Recorder model(80);
  const Tokens32 prompt = prompt_of(8);
  for (const uint64_t number : {uint64_t{1}, uint64_t{2}, uint64_t{3}}) {
    const GenerateOptions options{
        .max_tokens = 30, .sampling = {.temperature = 0.7, .top_k = 5}, .seed = number};
    const Tokens32 plain = generate(model, prompt, options).tokens, whole = joined(prompt, plain);
    Known drafts(whole, each_fourth(whole.size()));
    expect_tokens("30 sampled tokens, seed " + shown(number),
                  generate_speculative(model, prompt, options, drafts, always(4)).tokens, plain);
    PromptLookup lookup({.least = 1});
    expect_tokens("the same with prompt lookup", generate_speculative(model, prompt, options, lookup).tokens,
                  plain);
  }
}

TEST_CASE("9.11 drafts that were drawn: texts have the distribution of the model") {
  // Logits [V] that depend on the last token alone.
  struct Chain : LanguageModel {
    Chain() {
      table = from_data(Values::random(f64, {3, 3}, Layout::contiguous, -1.5, 1.5).numbers(), {3, 3});
    }
    int64_t vocabulary() const override { return 3; }
    int64_t context() const override { return 20; }
    Tensor features(const Tensor& t, AttentionCache*) override {
      return index_select(table, 0, t.reshape({-1})).unsqueeze(0);
    }
    Tensor head(const Tensor& x) override { return x; }
    Numbers next(int64_t last) const {
      Numbers x = table.select(0, last).to_vector<double>();
      double sum = 0;
      for (double& v : x) v = std::exp(v), sum += v;
      for (double& v : x) v /= sum;
      return x;
    }
    Tensor table;
  } model;
  struct Drawn : DraftSource {
    std::vector<Numbers> q = {{0.6, 0.3, 0.1}, {0.2, 0.2, 0.6}, {0.1, 0.8, 0.1}};
    Proposal propose(std::span<const int32_t> text, int64_t most) override {
      Proposal out;
      for (int32_t last = text.back(); std::ssize(out.tokens) < most; last = out.tokens.back()) {
        out.drawn_from.push_back(q[static_cast<size_t>(last)]);
        out.tokens.push_back(drawn(out.drawn_from.back()));
      }
      return out;
    }
  } drafts;
  const std::vector<Numbers>& q = drafts.q;
  // Texts of four tokens: one without a draft, then two drafts, and if the first is rejected one more.
  constexpr int kTexts = 1500;
  Numbers seen(27), share(27);
  double accepted = 0, expected = 0;
  const Tokens32 prompt = {0};
  for (int i = 0; i < kTexts; ++i) {
    const GenerateOptions options{.max_tokens = 4, .seed = seed() + static_cast<uint64_t>(i)};
    const SpeculativeText out = generate_speculative(model, prompt, options, drafts, always(2));
    const Tokens32& t = out.tokens;
    ++seen[static_cast<size_t>(9 * t[1] + 3 * t[2] + t[3])];
    accepted += static_cast<double>(out.accepted);
  }
  std::vector<Numbers> p;
  Numbers kept(3);  // of a draft behind each token
  for (size_t last = 0; last < 3; ++last) {
    p.push_back(model.next(static_cast<int64_t>(last)));
    for (size_t t = 0; t < 3; ++t) kept[last] += std::min(p[last][t], q[last][t]);
  }
  for (size_t a = 0; a < 3; ++a) {
    expected += kTexts * p[0][a] * kept[a];
    for (size_t b = 0; b < 3; ++b) {
      expected += kTexts * p[0][a] * p[a][b] * kept[b];
      for (size_t i = 0; i < 9; ++i) share[9 * b + i] += p[0][a] * p[a][b] * p[b][i / 3] * p[i / 3][i % 3];
    }
  }
  expect_distribution("the last three of four tokens", seen, share);
  expect("accepted drafts of " + shown(kTexts) + " texts: about " + shown(expected) +
             ", the sum of min(p, q); got " + shown(accepted),
         std::abs(accepted - expected) <= 5 * std::sqrt(kTexts));
}

TEST_CASE("9.11 drafts that are always wrong are soon given up, and right ones are not") {
  Recorder model(130);
  const Tokens32 prompt = prompt_of(4), text = model.greedy(prompt, 60), whole = joined(prompt, text);
  for (const bool right : {false, true}) {
    Known drafts(whole, !right);
    const SpeculativeText out = generate_speculative(model, prompt, greedy_options(60), drafts);
    expect_tokens("60 tokens", out.tokens, text);
    if (right)
      expect("passes for 60 tokens with right drafts: at most 14, got " + shown(out.passes),
             out.passes <= 14);
    else
      expect("drafts for 60 tokens, if all are wrong: at most 25, got " + shown(out.proposed),
             out.proposed <= 25);
  }
}

TEST_CASE("9.11 options and drafts that do not fit are refused") {
  Recorder model(40);
  const Tokens32 prompt = prompt_of(3);
  Fixed none;
  for (const SpeculationOptions& bad : {always(0), always(8), SpeculationOptions{.row_cost = -1}})
    expect_throws("TT-NN-29",
                  "speculation with " + shown(bad.most) + " drafts at a cost of " + shown(bad.row_cost),
                  [&] { generate_speculative(model, prompt, greedy_options(9), none, bad); });
  const Proposal three{{1, 2, 3}}, beyond{{1, 23}}, one_of_two{{1, 2}, {Numbers(23, 1.0 / 23)}};
  for (const Proposal& proposal : {three, beyond, one_of_two}) {
    Fixed drafts(proposal);
    expect_throws("TT-NN-29",
                  "two drafts of 23 tokens: " + shown(proposal.tokens) + " with " +
                      shown(std::ssize(proposal.drawn_from)) + " probabilities",
                  [&] { generate_speculative(model, prompt, greedy_options(9), drafts, always(2)); });
  }
}

TEST_CASE(
    "9.11 prompt lookup drafts what followed the longest, and last, agreement with the end of the text") {
  PromptLookup lookup;
  const auto drafts = [&](const Tokens32& text, int64_t most, const Tokens32& want) {
    expect_tokens("drafts for " + shown(text), lookup.propose(text, most).tokens, want);
  };
  drafts({1, 2, 3, 4, 9, 1, 2}, 3, {3, 4, 9});
  drafts({1, 2, 3, 9, 1, 2, 4, 9, 1, 2}, 2, {4, 9});     // the last of two places
  drafts({5, 1, 2, 3, 9, 1, 2, 4, 5, 1, 2}, 2, {3, 9});  // the longer agreement, not the last place
  drafts({1, 2, 3, 4, 5}, 3, {});                        // nothing agrees
  drafts({1, 7, 2, 7}, 3, {});                           // one token is too few
  drafts({1, 2, 1, 2}, 5, {1, 2, 1, 2, 1});              // behind the end, what was drafted goes on
  drafts({4, 4, 4}, 3, {4, 4, 4});
  drafts({1}, 3, {}), drafts({}, 3, {});
  PromptLookup one({.least = 1, .most = 2});
  expect_tokens("with least = 1", one.propose(Tokens32{1, 7, 2, 7}, 2).tokens, {2, 7});
  expect_tokens("with most = 2, a place that agrees in 3 tokens is as good as one that agrees in 2",
                one.propose(Tokens32{5, 1, 2, 3, 9, 1, 2, 4, 5, 1, 2}, 2).tokens, {4, 5});
  expect_throws("TT-NN-29", "least = 0", [] { PromptLookup({.least = 0}); });
}
