// Speculative decoding: a cheap source drafts k tokens, and one pass of the model over k + 1 rows decides how
// many of them it would have written itself. A pass reads all weights, whether it has one row or eight.
//
//   tt::PromptLookup drafts;                       // or tt::DraftModel drafts(small_model);
//   tt::SpeculativeText out = tt::generate_speculative(model, prompt, {.max_tokens = 100}, drafts);
//   out.text, out.accepted, out.passes
//
// Greedy texts equal those of generate(), and sampled texts have their distribution: a token drafted from the
// probabilities q is accepted with probability min(1, p / q), where p is what the model and the sampling
// options give; else a token is drawn from the positive part of p - q. Sources: Leviathan et al., "Fast
// inference from transformers via speculative decoding", 2023; Saxena, "Prompt lookup decoding", 2023.
#pragma once

#include <tinytorch/transformer/generate.hpp>

namespace tinytorch::inline TT_BUILD {

struct SpeculationOptions {
  int64_t most = 7;  // drafted tokens of a pass, 1 to 7: a product of up to 8 rows reads the weights once
  // The time that a drafted token adds to a pass, as a share of a pass with one row. With it and the share of
  // drafts that were accepted so far, the number of drafts is chosen that promises the most speed.
  double row_cost = 0.1;
  bool adapt = true;  // false: always `most` drafts
};

struct SpeculativeText : Generated {
  int64_t proposed = 0, accepted = 0;  // drafted tokens
  int64_t passes = 0;                  // of the model
};

// Drafted tokens. `drawn_from` has the probabilities [V] from which each was drawn, or is empty if no chance
// was involved.
struct Proposal {
  std::vector<int32_t> tokens{};
  std::vector<std::vector<double>> drawn_from{};
};

class DraftSource {
 public:
  virtual ~DraftSource() = default;
  // A text of `model` begins, which will have at most `longest` tokens.
  virtual void begin(const LanguageModel& /*model*/, int64_t /*longest*/, const GenerateOptions& /*options*/,
                     Loc /*loc*/) {}
  // Proposes at most `most` tokens that may follow the text.
  virtual Proposal propose(std::span<const int32_t> text, int64_t most) = 0;
  // Time to draft a token, as a share of a pass of the model.
  virtual double cost() const { return 0; }
};

struct PromptLookupOptions {
  int64_t least = 2;  // the end of the text must be found with at least so many tokens
  int64_t most = 8;   // more tokens than these are not compared
};

// Looks for the place in the text that agrees with its end in the most tokens, and drafts what follows there.
// If there are several such places, the last one is taken. It suits texts that repeat their prompt:
// summaries, edited code, answers with quotations.
class PromptLookup : public DraftSource {
 public:
  explicit PromptLookup(const PromptLookupOptions& options = {}, TT_LOC);
  inline Proposal propose(std::span<const int32_t> text, int64_t most) override;

 private:
  PromptLookupOptions options_;
};

// Drafts by a smaller model of the same vocabulary, with a cache of its own. It samples with the options of
// the text. Throws TT-NN-29 if the vocabularies differ.
class DraftModel : public DraftSource {
 public:
  explicit DraftModel(LanguageModel& model) : model_(model) {}
  void begin(const LanguageModel& model, int64_t longest, const GenerateOptions& options, Loc loc) override {
    if (model_.vocabulary() != model.vocabulary()) {
      fail("TT-NN-29",
           "speculation: the draft model has a vocabulary of " + std::to_string(model_.vocabulary()) +
               ", the model one of " + std::to_string(model.vocabulary()) +
               "\n  hint: a draft model needs the same tokens, and is best trained on the same texts",
           loc);
    }
    sampling_ = options.sampling, logit_bias_ = options.logit_bias;
    generator_ = Generator(~options.seed);  // independent of the random numbers of the text
    continuation_.emplace(model_, longest, options, loc);
    seen_.clear();
    const auto own = static_cast<double>(model_.parameter_count());
    cost_ = own / static_cast<double>(std::max<int64_t>(1, model.parameter_count()));
  }
  inline Proposal propose(std::span<const int32_t> text, int64_t most) override;
  double cost() const override { return cost_; }

 private:
  LanguageModel& model_;
  SamplingOptions sampling_{};
  std::vector<std::pair<int32_t, double>> logit_bias_;
  Generator generator_{0};
  std::optional<generation::Continuation> continuation_;
  std::vector<int32_t> seen_;  // the tokens in its cache
  double cost_ = 0;
};

namespace speculation {

// The place at which the sum of the weights, which are not negative, exceeds the share u of their total.
inline int32_t draw(std::span<const double> weights, double u) {
  double wanted = u * std::accumulate(weights.begin(), weights.end(), 0.0);
  size_t last = 0;  // if rounding leaves the sum below: the last token with a weight above 0
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    last = i, wanted -= weights[i];
    if (wanted < 0) break;
  }
  return static_cast<int32_t>(last);
}

// A token with the distribution p, given one that was drawn from q. It is that token, which has then been
// accepted, or else another one: where q exceeds p, the positive part of p - q is 0.
inline int32_t accept_or_redraw(std::span<const double> p, int32_t drafted, std::span<const double> q,
                                Generator& generator) {
  const auto d = static_cast<size_t>(drafted);
  if (p[d] >= q[d] || generator.uniform() * q[d] < p[d]) return drafted;
  std::vector<double> rest;
  for (size_t i = 0; i < p.size(); ++i) rest.push_back(std::max(0.0, p[i] - q[i]));
  const bool nothing = std::ranges::all_of(rest, [](double x) { return x == 0; });  // p = q up to rounding
  return draw(nothing ? p : rest, generator.uniform());
}

// Chooses the number of tokens to draft. If a share `a` of the drafts is accepted, a pass with k of them
// gives 1 + a + ... + a^k tokens and takes the time of 1 + c k passes with one row. While no number of drafts
// pays, one draft is tried after a pause, which doubles from 8 to 64 passes, since the text may begin to
// repeat something.
class DraftLength {
 public:
  DraftLength(const SpeculationOptions& options, double draft_cost)
      : options_(options), cost_(options.row_cost + draft_cost) {}

  int64_t next() {
    if (!options_.adapt) return options_.most;
    if (wait_ > 0) return --wait_, 0;
    const int64_t best = best_length();
    probes_ = best == 0;
    return std::max<int64_t>(1, best);
  }
  // Drafts behind the first rejected one were not judged. Older judgements count less.
  void record(int64_t proposed, int64_t accepted) {
    if (proposed == 0) return;
    for (int64_t i = 0; i < accepted + (accepted < proposed); ++i) {
      accepted_ = accepted_ * kMemory + (i < accepted);
      judged_ = judged_ * kMemory + 1;
    }
    if (accepted > 0) pause_ = 0;
    if (accepted > 0 || !probes_) return;
    pause_ = std::clamp<int64_t>(2 * pause_, 8, 64);
    wait_ = pause_;
  }
  double rate() const { return accepted_ / judged_; }

 private:
  int64_t best_length() const {
    const double a = rate();
    double tokens = 1, power = 1, speed = 1;
    int64_t best = 0;
    for (int64_t k = 1; k <= options_.most; ++k) {
      power *= a, tokens += power;
      const double s = tokens / (1 + cost_ * static_cast<double>(k));
      if (s > speed) speed = s, best = k;
    }
    return best;
  }
  static constexpr double kMemory = 0.9;
  SpeculationOptions options_;
  double cost_;
  double accepted_ = 2, judged_ = 3;  // of before the text
  bool probes_ = false;
  int64_t pause_ = 0, wait_ = 0;
};

inline void require_options(const SpeculationOptions& o, Loc loc) {
  if (o.most >= 1 && o.most <= 7 && o.row_cost >= 0) return;
  fail("TT-NN-29", "speculation: an option is out of range\n  rule: 1 <= most <= 7, row_cost >= 0", loc);
}
inline void require_proposal(const Proposal& p, int64_t most, int64_t vocabulary, Loc loc) {
  bool fits = std::ssize(p.tokens) <= most;
  for (const int32_t t : p.tokens) fits = fits && t >= 0 && t < vocabulary;
  fits = fits && (p.drawn_from.empty() || p.drawn_from.size() == p.tokens.size());
  for (size_t i = 0; fits && i < p.drawn_from.size(); ++i) {
    const std::vector<double>& q = p.drawn_from[i];
    fits = std::ssize(q) == vocabulary && q[static_cast<size_t>(p.tokens[i])] > 0;
  }
  if (fits) return;
  fail("TT-NN-29",
       "speculation: a proposal does not fit the model\n  rule: at most " + std::to_string(most) +
           " tokens from 0 to " + std::to_string(vocabulary - 1) +
           ", and for each none or all probabilities, its own above 0",
       loc);
}

// Adds drafted tokens to the text until one is rejected, and then, or after all, one token more. Returns how
// many were accepted. Row i of the logits predicts drafted token i.
inline int64_t judge(generation::Text& text, const Tensor& logits, const Proposal& drafts, Loc loc) {
  const int64_t count = std::ssize(drafts.tokens);
  for (int64_t i = 0; i <= count; ++i) {
    const Tensor row = logits.select(0, i);
    const auto d = static_cast<size_t>(i);
    // A draft without chance has q = 1. To draw from p, and to accept if that gives the draft, is then the
    // same as to accept with probability p and to draw from the others else.
    const bool drawn = i < count && !drafts.drawn_from.empty();
    const int32_t token = drawn ? accept_or_redraw(text.probabilities(row, loc), drafts.tokens[d],
                                                   drafts.drawn_from[d], text.generator())
                                : text.sample(row, loc);
    text.take(token, row, loc);
    const bool accepted = i < count && token == drafts.tokens[d];
    if (!accepted || text.done()) return i + accepted;
  }
  return count;
}

}  // namespace speculation

// Continues `prompt` as generate() does. On the CPU a model with a cache gives each row of a pass the bits
// that it has alone; elsewhere logits may round differently, which matters where two tokens are about equally
// likely. With a source that involves no chance, such as PromptLookup, sampled texts also equal those of
// generate() with the same seed.
inline SpeculativeText generate_speculative(LanguageModel& model, std::span<const int32_t> prompt,
                                            const GenerateOptions& options, DraftSource& drafts,
                                            const SpeculationOptions& speculation = {}, TT_LOC) {
  speculation::require_options(speculation, loc);
  const NoGrad no_grad;
  const generation::EvaluationMode evaluation(model);
  generation::Text text(model, prompt, options, loc);
  generation::Continuation continuation(model, text.longest(), options, loc);
  drafts.begin(model, text.longest(), options, loc);
  speculation::DraftLength length(speculation, drafts.cost());
  SpeculativeText out;
  while (!text.done()) {
    // The prompt has a pass of its own, as in generate().
    const int64_t room = std::min(continuation.all_seen() - std::ssize(text.tokens()), text.may_write() - 1);
    const int64_t most = out.passes == 0 ? 0 : std::min(room, length.next());
    const Proposal proposal = most > 0 ? drafts.propose(text.tokens(), most) : Proposal{};
    speculation::require_proposal(proposal, std::max<int64_t>(0, most), model.vocabulary(), loc);
    std::vector<int32_t> asked(text.tokens().begin(), text.tokens().end());
    asked.insert(asked.end(), proposal.tokens.begin(), proposal.tokens.end());
    const int64_t proposed = std::ssize(proposal.tokens);
    const Tensor logits = continuation.rows(asked, proposed + 1).to(cpu);
    const int64_t accepted = speculation::judge(text, logits, proposal, loc);
    continuation.truncate(std::ssize(text.tokens()) - 1);  // the last token has not been computed
    length.record(proposed, accepted);
    out.proposed += proposed, out.accepted += accepted, ++out.passes;
  }
  static_cast<Generated&>(out) = std::move(text).result();
  return out;
}

inline PromptLookup::PromptLookup(const PromptLookupOptions& options, Loc loc) : options_(options) {
  if (options.least >= 1 && options.most >= options.least) return;
  fail("TT-NN-29", "prompt lookup: needs 1 <= least <= most tokens to compare", loc);
}
inline Proposal PromptLookup::propose(std::span<const int32_t> text, int64_t most) {
  const int64_t T = std::ssize(text);
  int64_t best = 0, from = 0;
  for (int64_t end = 1; end < T; ++end) {  // the tokens before `end` are compared with the last ones
    int64_t n = 0;
    while (n < options_.most && n < end &&
           text[static_cast<size_t>(end - 1 - n)] == text[static_cast<size_t>(T - 1 - n)])
      ++n;
    if (n >= best) best = n, from = end;
  }
  Proposal out;
  if (best < options_.least) return out;
  // Behind the end of the text, the draft goes on with its own tokens: a text that repeats itself does so
  // again.
  for (int64_t i = from; std::ssize(out.tokens) < most; ++i)
    out.tokens.push_back(i < T ? text[static_cast<size_t>(i)] : out.tokens[static_cast<size_t>(i - T)]);
  return out;
}

inline Proposal DraftModel::propose(std::span<const int32_t> text, int64_t most) {
  const generation::EvaluationMode evaluation(model_);
  std::vector<int32_t> all(text.begin(), text.end());
  most = std::min(most, continuation_->all_seen() - std::ssize(all) + 1);
  // The cache forgets drafted tokens that were rejected. The last token is always computed, for its logits.
  const auto agreed = std::ranges::mismatch(seen_, all).in1 - seen_.begin();
  continuation_->truncate(std::min<int64_t>(agreed, std::ssize(all) - 1));
  Proposal out;
  for (int64_t i = 0; i < most; ++i) {
    const Tensor logits = generation::biased(continuation_->next(all), logit_bias_);
    seen_ = all;
    out.drawn_from.push_back(next_token_probabilities(logits, all, sampling_));
    out.tokens.push_back(speculation::draw(out.drawn_from.back(), generator_.uniform()));
    all.push_back(out.tokens.back());
  }
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
