// Text generation: each token is sampled from the model's logits at the last position.
//
// The frame of a course header: it has the given parts, and includes the functions of task 9.3. It is cut
// from the library's header by modules/frames.py.
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
inline Tensor next_logits(LanguageModel& model, std::span<const int32_t> tokens, int64_t rows);  // task 9.3
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
  Tensor next(std::span<const int32_t> tokens);  // task 9.3
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
  Tensor rows(std::span<const int32_t> tokens, int64_t count);  // task 9.3
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

inline std::vector<Generated> generate_batch(LanguageModel& model, std::span<const TextRequest> requests,
                                             TT_LOC);  // task 9.3

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/transformer/generate.hpp>
