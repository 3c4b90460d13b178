// Text generation: each token is sampled from the model's logits at the last position.
//
//   tt::Generated out = tt::generate(model, prompt, {.max_tokens = 100, .sampling = {.top_p = 0.9}});
//
// The keys and values of earlier tokens are kept in a cache, so a token costs one row, not T rows. A model
// without a kv_shape() is asked for the whole context each time. A sequence longer than the model's context
// is continued from its last tokens; their positions move with each token, so they are all computed again.
#pragma once

#include <optional>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/kv_cache/contiguous.hpp>
#include <tinytorch/transformer/generated_text.hpp>
#include <tinytorch/transformer/graph_decode.hpp>

namespace tinytorch::inline TT_BUILD {

namespace generation {

// Logits [rows, V] of the features [1, T, C] of the last `rows` tokens.
inline Tensor last_logits(LanguageModel& model, const Tensor& features, int64_t rows) {
  const int64_t T = features.size(1);
  return model.head(rows == 1 ? features.select(1, -1) : slice(features, 1, T - rows, T).select(0, 0));
}
// Logits [rows, V] of the token after `tokens`, and before it those of the last tokens.
inline Tensor next_logits(LanguageModel& model, std::span<const int32_t> tokens, int64_t rows) {
  const size_t length = std::min(tokens.size(), static_cast<size_t>(model.context()));
  const std::span<const int32_t> seen = tokens.last(length);
  const std::vector<int64_t> ids(seen.begin(), seen.end());
  const Tensor input = from_data(ids, {1, static_cast<int64_t>(length)}, model.device());
  return last_logits(model, model.features(input), rows);
}
// The step of these texts, row by row, as the host needs it. A GPU chooses the tokens. A text may be null.
inline HostStep host_step(const DecodeStep& step, std::span<const Text* const> texts, Loc loc) {
  TokenChoices how{std::vector<TokenChoice>(texts.size())};
  for (size_t row = 0; row < texts.size(); ++row)
    if (texts[row]) texts[row]->choose(how, static_cast<int64_t>(row));
  return TokensOnTheWay(choose_tokens(step, how, loc)).with(step.logits);
}
inline HostStep host_step(const Tensor& logits, std::span<const Text* const> texts, Loc loc) {
  return logits.device().is_cpu() ? HostStep{logits} : host_step(decode_step(logits), texts, loc);
}

// The cache that the options ask for. Its dtype is that of the model's first parameter if they name none.
inline KvCacheOptions cache_options(const LanguageModel& model, int64_t sequences, int64_t capacity,
                                    const GenerateOptions& options) {
  const Tensors parameters = model.parameters();
  const DType of_model = parameters.empty() ? DType::f32 : parameters[0].dtype();
  return {.sequences = sequences,
          .capacity = capacity,
          .device = model.device(),
          .dtype = options.cache_dtype.value_or(of_model),
          .format = options.cache_format};
}

// Logits of the tokens after a growing sequence.
class Continuation {
 public:
  // The sequence will have at most `longest` tokens.
  Continuation(LanguageModel& model, int64_t longest, const GenerateOptions& options, Loc loc)
      : model_(model) {
    if (!options.cache || !model.kv_shape().exists() || model.parameters().empty()) return;
    cache_.emplace(model.kv_shape(), cache_options(model, 1, std::min(longest, model.context()), options),
                   loc);
  }
  // [V], on the CPU: of the token after `tokens`.
  Tensor next(std::span<const int32_t> tokens) { return rows(tokens, 1).select(0, 0).to(cpu); }
  // Adds the next token to a text. On a GPU, the step after it is queued before its token is read.
  void add_next(Text& text, Loc loc) {
    const std::span<const int32_t> tokens = text.tokens();
    const int64_t length = std::ssize(tokens);
    const Text* const one[] = {&text};
    const bool single = cache_ && length <= cache_->capacity() && length == cached() + (ahead_ ? 0 : 1);
    if (!single || model_.device().is_cpu() || !model_.steps_fit_graphs())
      return text.add(host_step(rows(tokens, 1), one, loc), 0, loc);
    if (!decode_) decode_.emplace(model_, *cache_, 0, loc);
    const int64_t counts[] = {1}, added[] = {tokens.back()};
    const DecodeStep step =
        ahead_ ? *std::exchange(ahead_, std::nullopt) : (*decode_)(counts, std::span(added), loc);
    if (!text.chosen_on_device() || text.choice_depends_on_tokens() || text.may_write() < 2 ||
        length == cache_->capacity())
      return text.add(host_step(step, one, loc), 0, loc);
    TokenChoices how{std::vector<TokenChoice>(1)};
    text.choose(how, 0);
    const ChosenTokens chosen = choose_tokens(step, how, loc);
    TokensOnTheWay on_the_way(chosen);
    ahead_ = (*decode_)(counts, chosen.tokens, loc);
    const HostStep on_host = on_the_way.with({});
    if (std::isfinite(on_host.largest[0])) return text.add(on_host, 0, loc);
    forget_ahead();  // no token was chosen: the text reports what is wrong with the logits
    cache_->truncate(0, length - 1);
    text.add(host_step((*decode_)(counts, std::span(added), loc), one, loc), 0, loc);
  }
  // [count, V]: row i predicts the token after all but the last count - 1 - i tokens. Only tokens that are
  // not cached yet have rows, and a text longer than all_seen() has one. With a cache on the CPU, rows that
  // are computed together have the bits that they would have one by one.
  Tensor rows(std::span<const int32_t> tokens, int64_t count) {
    forget_ahead();
    if (!cache_ || std::ssize(tokens) > cache_->capacity()) return next_logits(model_, tokens, count);
    const std::span<const int32_t> added = tokens.subspan(static_cast<size_t>(cache_->length(0)));
    const std::vector<int64_t> ids(added.begin(), added.end());
    const Tensor input = from_data(ids, {1, std::ssize(ids)}, model_.device());
    const backend::cpu::ProductsByRows by_rows(count > 1 || backend::cpu::products_by_rows());
    return last_logits(model_, model_.features(input, &*cache_), count);
  }
  // The longest text of which the model sees every token.
  int64_t all_seen() const { return cache_ ? cache_->capacity() : model_.context(); }
  int64_t cached() const { return cache_ ? cache_->length(0) : 0; }
  // Forgets the cached tokens from `length` on.
  void truncate(int64_t length) {
    forget_ahead();
    if (cached() > length) cache_->truncate(0, length);
  }

 private:
  // Takes the token of a step back that was queued before anyone asked for it.
  void forget_ahead() {
    if (std::exchange(ahead_, std::nullopt)) cache_->truncate(0, cached() - 1);
  }

  LanguageModel& model_;
  std::optional<ContiguousCache> cache_;
  std::optional<GraphDecode> decode_;  // on a GPU
  std::optional<DecodeStep> ahead_{};  // the step of the text's last token, whose result nobody has read
};

// Sets evaluation mode until the end of the scope.
class EvaluationMode {
 public:
  explicit EvaluationMode(Module& model) : model_(model), was_training_(model.training()) { model.eval(); }
  ~EvaluationMode() { model_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Module& model_;
  bool was_training_;
};

}  // namespace generation

// Continues `prompt`, which has at least one token.
inline Generated generate(LanguageModel& model, std::span<const int32_t> prompt,
                          const GenerateOptions& options = {}, TT_LOC) {
  const NoGrad no_grad;
  const generation::EvaluationMode evaluation(model);
  generation::Text text(model, prompt, options, loc);
  generation::Continuation continuation(model, text.longest(), options, loc);
  while (!text.done()) continuation.add_next(text, loc);
  return std::move(text).result();
}

struct TextRequest {
  std::vector<int32_t> prompt;
  GenerateOptions options{};
};

// Continues several prompts of any lengths at once: a step has one token of each text that goes on, and the
// first step has the prompts, so that no prompt is padded. Result i is what generate() returns for request i,
// up to the rounding of logits; with a cache of i8, fp8 or i4, prompts are read from it, while generate()
// attends to a prompt before it is rounded. Throws TT-NN-27 if the model has no kv_shape(), or if a text
// could be longer than its context, where it would have to slide.
inline std::vector<Generated> generate_batch(LanguageModel& model, std::span<const TextRequest> requests,
                                             TT_LOC) {
  const NoGrad no_grad;
  const generation::EvaluationMode evaluation(model);
  std::vector<generation::Text> texts;
  int64_t capacity = 1;
  for (const TextRequest& r : requests) {
    texts.emplace_back(model, r.prompt, r.options, loc);
    capacity = std::max(capacity, texts.back().longest());
    const bool slides = r.options.at_context_end == GenerateOptions::ContextEnd::slide;
    const int64_t room = model.context() - std::ssize(r.prompt);
    if (!model.kv_shape().exists() || (slides && r.options.max_tokens > room + 1)) {
      fail("TT-NN-27",
           "generate_batch: a text of " + std::to_string(r.prompt.size()) + " + " +
               std::to_string(r.options.max_tokens) +
               " tokens needs a model with a cache and a context of as many, not " +
               std::to_string(model.context()) + "\n  hint: at_context_end = stop, or fewer max_tokens",
           loc);
    }
  }
  if (texts.empty()) return {};
  ContiguousCache cache(model.kv_shape(),
                        generation::cache_options(model, std::ssize(texts), capacity, requests[0].options),
                        loc);
  for (;;) {
    std::vector<int64_t> counts, ids, last, running;
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto added =
          texts[i].done()
              ? std::span<const int32_t>()
              : texts[i].tokens().subspan(static_cast<size_t>(cache.length(static_cast<int64_t>(i))));
      counts.push_back(std::ssize(added));
      ids.insert(ids.end(), added.begin(), added.end());
      if (!added.empty()) last.push_back(std::ssize(ids) - 1), running.push_back(static_cast<int64_t>(i));
    }
    if (running.empty()) break;
    cache.begin(counts, loc);
    const Tensor x =
        model.features(from_data(ids, {1, std::ssize(ids)}, model.device()), &cache).select(0, 0);
    const Tensor rows = index_select(x, 0, from_data(last, {std::ssize(last)}, model.device()));
    std::vector<const generation::Text*> of_rows;
    for (const int64_t i : running) of_rows.push_back(&texts[static_cast<size_t>(i)]);
    const generation::HostStep step = generation::host_step(model.head(rows), of_rows, loc);  // [running, V]
    for (size_t r = 0; r < running.size(); ++r)
      texts[static_cast<size_t>(running[r])].add(step, static_cast<int64_t>(r), loc);
  }
  std::vector<Generated> out;
  for (generation::Text& text : texts) out.push_back(std::move(text).result());
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
