// The language model of an entry: the library's GPT-2 with its weights. It scores the byte after each of many
// windows, or continues a prompt byte by byte with greedy decoding. What it computes for a prompt with a salt
// is kept for later prompts with the same one.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tinymlperf/entries/kept_prefixes.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinytorch/transformer/generate.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <vector>

namespace tinymlperf {

// Windows of bytes, i64 [N, T] -> logits of the byte after each window, f32 [N, 256].
inline tt::Tensor next_logits(tt::LanguageModel& model, const tt::Tensor& windows) {
  return model.head(model.features(windows).select(1, -1));
}

// next(windows) for 64 windows at a time, so that the memory for activations does not grow with N.
template <class Next>
tt::Tensor score_in_parts(Next&& next, const tt::Tensor& windows) {
  constexpr int64_t kTogether = 64;
  const tt::NoGrad no_grad;
  tt::Tensors parts;
  for (int64_t start = 0; start < windows.size(0); start += kTogether)
    parts.push_back(next(windows.slice(0, start, std::min(start + kTogether, windows.size(0)))));
  return tt::cat(parts, 0);
}

inline tt::Tensor score_windows(tt::LanguageModel& model, const tt::Tensor& windows) {
  return score_in_parts([&](const tt::Tensor& some) { return next_logits(model, some); }, windows);
}

class TextModel {
 public:
  TextModel(EntrySpec spec, const tt::StateDict& weights) : spec_(std::move(spec)), gpt_(build_gpt(spec_)) {
    gpt_->load_state_dict(weights);
    gpt_->eval();
  }
  TextModel(EntrySpec spec, std::shared_ptr<tt::Gpt2> gpt) : spec_(std::move(spec)), gpt_(std::move(gpt)) {}
  const EntrySpec& spec() const { return spec_; }

  tt::Tensor score(const tt::Tensor& windows) const {
    return score(windows, [&](const tt::Tensor& some) { return next(some); });
  }
  // `next_by` stands for next().
  template <class Next>
  tt::Tensor score(const tt::Tensor& windows, Next&& next_by) const {
    require_length(windows.size(1));
    return score_in_parts(next_by, windows);
  }
  // The logits of a part of score().
  tt::Tensor next(const tt::Tensor& windows) const { return next_logits(*gpt_, windows); }

  // Calls token(byte) for each byte as soon as it is computed. Returns all of them. Without a salt nothing is
  // kept.
  std::vector<uint8_t> continue_prompt(std::span<const uint8_t> prompt, int64_t bytes,
                                       const std::function<void(uint8_t)>& token,
                                       std::string_view salt = {}) const {
    require_length(static_cast<int64_t>(prompt.size()) + bytes);
    const std::vector<int32_t> start(prompt.begin(), prompt.end());
    if (!salt.empty()) {
      if (!kept_) kept_ = std::make_unique<KeptPrefixes>(*gpt_);
      std::vector<uint8_t> all;
      kept_->continue_prompt(start, bytes, salt, [&](int32_t next) {
        all.push_back(static_cast<uint8_t>(next));
        token(all.back());
      });
      return all;
    }
    const tt::Generated out = tt::generate(*gpt_, start,
                                           {.max_tokens = bytes,
                                            .sampling = {.temperature = 0},
                                            .on_token = [&](int32_t next, std::string_view) {
                                              token(static_cast<uint8_t>(next));
                                              return true;
                                            }});
    return {out.tokens.begin(), out.tokens.end()};
  }

 private:
  void require_length(int64_t bytes) const {
    if (bytes < 1 || bytes > gpt_->context())
      throw std::invalid_argument(spec_.name + ": expected 1 to " + std::to_string(gpt_->context()) +
                                  " bytes, found " + std::to_string(bytes));
  }
  EntrySpec spec_;
  std::shared_ptr<tt::Gpt2> gpt_;
  mutable std::unique_ptr<KeptPrefixes> kept_;  // a cache, which changes no answer
};

// Loads a language model from the folder of its entry. Throws like load_entry().
inline TextModel load_text_model(const std::filesystem::path& folder) {
  if (weights_file_of(folder) == std::string_view(kPackedFile)) {
    EntrySpec spec =
        parse_entry(detail::read_limited(folder / kModelFile, limits::kJsonBytes), task_of("lm"));
    auto gpt = std::dynamic_pointer_cast<tt::Gpt2>(load_packed_model(folder, spec));
    return {std::move(spec), std::move(gpt)};
  }
  auto [spec, weights] = detail::read_entry(folder, task_of("lm"));
  return {std::move(spec), weights};
}

}  // namespace tinymlperf
