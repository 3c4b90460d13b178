// The text that generate() writes: what ends it, which tokens it has, and what of it can be streamed.
//
// generation::Text takes the logits of the next token, samples it, and decides whether the text ends. With a
// decoder it compares the text with the stop strings, and passes a piece on as soon as it cannot become part
// of a stop string or of an unfinished UTF-8 character. generate() (generate.hpp), generate_speculative() and
// the engine of a server (serving/engine.hpp) share it, so that a text ends alike in all of them.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tinytorch/io/text.hpp>
#include <tinytorch/tensor/ops/host_copy.hpp>
#include <tinytorch/transformer/language_model.hpp>
#include <tinytorch/transformer/token_choice.hpp>

namespace tinytorch::inline TT_BUILD {

// Natural logarithms of the model's probabilities, before penalty, bias, temperature and filters.
struct TokenLogprobs {
  double own = 0;  // of the token that was sampled
  std::vector<std::pair<int32_t, double>>
      top{};  // the most probable tokens; among equal ones the smaller first
};

struct GenerateOptions {
  int64_t max_tokens = 100;
  SamplingOptions sampling{};
  std::vector<std::pair<int32_t, double>>
      logit_bias{};       // added to the logits of these tokens, before all else
  int64_t logprobs = -1;  // 0 or more: Generated::logprobs, with so many of the most probable tokens
  uint64_t seed = 0;      // seed of the random samples
  bool cache = true;      // false: the whole context is computed for each token
  // The dtype of the cache: f32, bf16, f16 or i8. With i8 the cache takes a quarter of the memory of f32, and
  // the logits change a little. nullopt stands for the dtype of the model, with which no logit changes.
  std::optional<DType> cache_dtype{};
  // fp8 takes as much memory as i8, and i4 about an eighth of that of f32 (backend/kv_format.hpp);
  // cache_dtype does not matter then.
  KvFormat cache_format = KvFormat::of_dtype;
  // When the sequence has reached the model's context, `slide` drops its oldest tokens, and `stop` ends the
  // text.
  enum class ContextEnd { slide, stop } at_context_end = ContextEnd::slide;
  // Sampling one of these tokens ends the text. nullopt: LanguageModel::end_tokens() of the model; empty:
  // none.
  std::optional<std::vector<int64_t>> end_tokens{};
  std::vector<std::string> stop{};  // the first of these strings in the text ends it; needs a decoder
  std::function<std::string(std::span<const int32_t>)> decode{};
  // Called after each token, also the end token, with the text that has become final (empty without a
  // decoder). Generation stops if it returns false. The concatenated pieces are Generated::text.
  std::function<bool(int32_t token, std::string_view text)> on_token{};
  // Called before on_token with what Generated::logprobs gets, if it gets any.
  std::function<void(int32_t token, const TokenLogprobs& logprobs)> on_logprobs{};
};

enum class FinishReason { max_tokens, end_token, stop_text, callback, context_end };

struct Generated {
  std::vector<int32_t> tokens{};          // the new tokens, without the end token
  std::string text{};                     // the text of the new tokens, up to the stop string
  std::vector<TokenLogprobs> logprobs{};  // of each new token, if they were asked for
  FinishReason reason = FinishReason::max_tokens;
};

namespace generation {

// The length of the text that can no longer change. The end of the text may still change if it is the
// beginning of a stop string, or an unfinished character, for which some decoders emit U+FFFD.
inline size_t certain_length(const std::string& text, const std::vector<std::string>& stops) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  size_t certain = text.size();
  const size_t invalid = find_invalid_utf8(text);
  if (text.size() - invalid < 4) certain = invalid;
  if (text.ends_with(kReplacement)) certain = text.size() - kReplacement.size();
  for (const std::string& stop : stops) {
    for (size_t n = std::min(stop.size(), text.size()); n > 0; --n) {
      if (text.ends_with(std::string_view(stop).substr(0, n))) {
        certain = std::min(certain, text.size() - n);
        break;
      }
    }
  }
  return certain;
}
inline size_t first_stop(const std::string& text, const std::vector<std::string>& stops) {
  size_t at = std::string::npos;
  for (const std::string& stop : stops) at = std::min(at, stop.empty() ? at : text.find(stop));
  return at;
}

// The text of the tokens so far, and how much of it has been passed on. Text that has been passed on is never
// taken back.
class Stream {
 public:
  explicit Stream(const GenerateOptions& options) : options_(options) {}

  // Returns the text that has become final. stopped() tells if a stop string was found.
  std::string_view advance(std::span<const int32_t> tokens) {
    if (!options_.decode) return {};
    text_ = options_.decode(tokens);
    const size_t stop = first_stop(text_, options_.stop);
    stopped_ = stop != std::string::npos;
    if (stopped_) text_.resize(stop);
    return hand_on(stopped_ ? text_.size() : certain_length(text_, options_.stop));
  }
  // Returns the text that was held back, after the last token.
  std::string_view flush() { return hand_on(text_.size()); }
  bool stopped() const { return stopped_; }
  const std::string& text() const { return text_; }

 private:
  std::string_view hand_on(size_t end) {
    const size_t from = std::min(shown_, text_.size());
    shown_ = std::max(end, from);
    return std::string_view(text_).substr(from, shown_ - from);
  }
  const GenerateOptions& options_;
  std::string text_;
  size_t shown_ = 0;
  bool stopped_ = false;
};

// Logits [V] with the bias of some tokens added. Tokens outside of the vocabulary are ignored.
inline Tensor biased(const Tensor& logits, const std::vector<std::pair<int32_t, double>>& bias) {
  if (bias.empty()) return logits;
  std::vector<double> values = logits.to_vector<double>();
  for (const auto& [token, value] : bias)
    if (token >= 0 && static_cast<size_t>(token) < values.size()) values[static_cast<size_t>(token)] += value;
  return from_data(values, {std::ssize(values)}, cpu);
}

inline TokenLogprobs logprobs_of(const Tensor& logits, int32_t token, int64_t count, Loc loc) {
  const std::vector<double> x = sampling::values_of(logits, loc);
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const double value : x) sum += std::exp(value - largest);
  const double log_sum = largest + std::log(sum);
  TokenLogprobs out{x[static_cast<size_t>(token)] - log_sum};
  std::vector<int32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min<int64_t>(count, std::ssize(order));
  std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
    const double p = x[static_cast<size_t>(a)], q = x[static_cast<size_t>(b)];
    return p > q || (p == q && a < b);
  });
  for (auto i = order.begin(); i != end; ++i) out.top.emplace_back(*i, x[static_cast<size_t>(*i)] - log_sum);
  return out;
}

// The part of a step that the host reads: the tokens that its device has chosen for texts, or logits.
struct HostStep {
  Tensor logits;                  // [rows, V], on any device
  std::vector<int64_t> tokens{};  // of each row; empty: texts sample them from the logits
  std::vector<double> largest{};  // logit of each row
};
// Chosen tokens on their way to the host, which may queue more work meanwhile.
class TokensOnTheWay {
 public:
  explicit TokensOnTheWay(const ChosenTokens& chosen) : tokens_(chosen.tokens), largest_(chosen.largest) {}
  HostStep with(const Tensor& logits) {
    return {logits, tokens_.get().to_vector<int64_t>(), largest_.get().to_vector<double>()};
  }

 private:
  HostCopy tokens_, largest_;
};

// A text that grows: its tokens, and what each new one decides.
class Text {
 public:
  Text(const LanguageModel& model, std::span<const int32_t> prompt, const GenerateOptions& options, Loc loc)
      : options_(options),
        end_tokens_(options.end_tokens.value_or(model.end_tokens())),
        generator_(options.seed),
        stream_(std::make_unique<Stream>(options)),
        context_(model.context()),
        vocabulary_(model.vocabulary()),
        given_(std::ssize(prompt)),
        all_(prompt.begin(), prompt.end()) {
    if (prompt.empty()) {
      fail("TT-NN-27", "generate: the prompt is empty\n  hint: begin with the model's start token", loc);
    }
    if (!options.stop.empty() && !options.decode) {
      fail("TT-NN-27", "generate: stop strings need a decoder\n  hint: set GenerateOptions::decode", loc);
    }
    if (stops() && given_ > context_) {
      fail("TT-NN-27",
           "generate: the prompt has " + std::to_string(given_) +
               " tokens, more than the model's context of " + std::to_string(context_) +
               "\n  hint: cut it, or let at_context_end be slide, which uses the last ones",
           loc);
    }
    sampling::require_options(options.sampling, loc);
    done_ = options.max_tokens <= 0;
  }

  std::span<const int32_t> tokens() const { return all_; }  // with the prompt
  bool done() const { return done_; }
  // The number of tokens, with the prompt, that the model may be asked for.
  int64_t longest() const {
    const int64_t room = std::max<int64_t>(0, context_ - given_);
    return given_ + std::min(room, std::max<int64_t>(0, options_.max_tokens));
  }

  int64_t may_write() const { return options_.max_tokens - std::ssize(out_.tokens); }  // new tokens, at most

  // Samples the next token from its logits [V].
  void add(const Tensor& logits, Loc loc) { take(sample(logits, loc), logits, loc); }
  // True if a device may choose tokens for this text, whose logits the host does not need then.
  bool chosen_on_device() const { return options_.logprobs < 0; }
  // True if the choice of a token depends on earlier ones, so that it cannot be queued before they are known.
  bool choice_depends_on_tokens() const { return options_.sampling.repetition_penalty != 1; }
  // Writes the choice of the next token as row `row`, which exists.
  void choose(TokenChoices& how, int64_t row) const {
    if (!chosen_on_device()) return;
    TokenChoice& choice = how.rows[static_cast<size_t>(row)];
    choice.sampling = options_.sampling;
    if (options_.sampling.temperature > 0) choice.uniform = Generator(generator_).uniform();
    add_edits(how.edits, row);
  }
  // Takes the token of row `row` of a step that its device has chosen by choose(), or samples one from its
  // logits.
  void add(const HostStep& step, int64_t row, Loc loc) {
    const auto i = static_cast<size_t>(row);
    if (!chosen_on_device() || i >= step.tokens.size() || !std::isfinite(step.largest[i]))
      return add(step.logits.select(0, row).to(cpu), loc);
    if (options_.sampling.temperature > 0) (void)generator_.uniform();
    take(static_cast<int32_t>(step.tokens[i]), {}, loc);
  }
  int32_t sample(const Tensor& logits, Loc loc) {
    return sample_token(biased(logits, options_.logit_bias), all_, options_.sampling, generator_, loc);
  }
  // The probability of each next token, [V], and the random numbers by which one is drawn.
  std::vector<double> probabilities(const Tensor& logits, Loc loc) const {
    return next_token_probabilities(biased(logits, options_.logit_bias), all_, options_.sampling, loc);
  }
  Generator& generator() { return generator_; }
  // The next token is this one, which was sampled from these logits.
  void take(int32_t token, const Tensor& logits, Loc loc) {
    const bool ends = std::ranges::find(end_tokens_, token) != end_tokens_.end();
    if (!ends) {
      all_.push_back(token), out_.tokens.push_back(token);
      if (options_.logprobs >= 0) {
        out_.logprobs.push_back(logprobs_of(logits, token, options_.logprobs, loc));
        if (options_.on_logprobs) options_.on_logprobs(token, out_.logprobs.back());
      }
    }
    std::string piece(ends ? "" : stream_->advance(out_.tokens));
    const bool full = stops() && std::ssize(all_) > context_;
    const bool last = ends || full || std::ssize(out_.tokens) == options_.max_tokens;
    if (last) piece += stream_->flush();
    const bool go_on = !options_.on_token || options_.on_token(token, piece);
    if (ends)
      out_.reason = FinishReason::end_token;
    else if (stream_->stopped())
      out_.reason = FinishReason::stop_text;
    else if (!go_on)
      out_.reason = FinishReason::callback;
    else if (full)
      out_.reason = FinishReason::context_end;
    done_ = last || out_.reason != FinishReason::max_tokens;
  }
  Generated result() && {
    out_.text = stream_->text();
    return std::move(out_);
  }

 private:
  // The bias of tokens, and the penalty of those that the text has.
  void add_edits(std::vector<LogitEdit>& edits, int64_t row) const {
    std::map<int64_t, LogitEdit> of_token;
    const auto edit = [&](int64_t token) -> LogitEdit* {
      if (token < 0 || token >= vocabulary_) return nullptr;
      return &of_token.try_emplace(token, LogitEdit{row, token}).first->second;
    };
    for (const auto& [token, bias] : options_.logit_bias)
      if (LogitEdit* const e = edit(token)) e->bias += bias;
    const double penalty = options_.sampling.repetition_penalty;
    if (penalty != 1)
      for (const int32_t token : all_)
        if (LogitEdit* const e = edit(token)) e->penalty = penalty;
    for (const auto& [token, e] : of_token) edits.push_back(e);
  }
  bool stops() const { return options_.at_context_end == GenerateOptions::ContextEnd::stop; }

  const GenerateOptions& options_;
  std::vector<int64_t> end_tokens_;
  Generator generator_;
  std::unique_ptr<Stream> stream_;
  int64_t context_, vocabulary_, given_;
  std::vector<int32_t> all_;
  Generated out_;
  bool done_ = false;
};

}  // namespace generation

}  // namespace tinytorch::inline TT_BUILD
