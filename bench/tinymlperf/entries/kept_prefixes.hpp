// Greedy continuation with a language model that keeps what it computed for prompts: a prompt that begins
// like an earlier one of the same salt takes over the keys and values of full pages of the common beginning
// (tinytorch/kv_cache/prefix.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <tinytorch/kv_cache/prefix.hpp>
#include <tinytorch/transformer/generate.hpp>
#include <vector>

namespace tinymlperf {

namespace tt = tinytorch;

class KeptPrefixes {
 public:
  // The model must outlive this object. Memory is that of 128 pages of 16 tokens.
  explicit KeptPrefixes(tt::LanguageModel& model)
      : model_(model),
        cache_(model.kv_shape(), tt::generation::cache_options(model, 1, model.context(), {}),
               {.pages = std::max<int64_t>(128, 2 * model.context() / kPage), .page = kPage}),
        prefix_(cache_) {}

  // Calls token(t) for each of the `count` likeliest next tokens. The text must fit the model's context.
  void continue_prompt(std::span<const int32_t> prompt, int64_t count, std::string_view salt,
                       const std::function<void(int32_t)>& token) {
    const tt::NoGrad no_grad;
    cache_.clear();
    const int64_t known = prefix_.match(0, prompt, salt);
    int32_t next = likeliest_after(prompt.subspan(static_cast<size_t>(known)));
    for (int64_t i = 0; i < count; ++i) {
      token(next);
      if (i == 0) prefix_.keep(0, prompt, salt);
      if (i + 1 < count) next = likeliest_after(std::span(&next, 1));
    }
  }
  const tt::PrefixCounts& counts() const { return prefix_.counts(); }

 private:
  static constexpr int64_t kPage = 16;

  // Appends tokens to the text in the cache.
  int32_t likeliest_after(std::span<const int32_t> tokens) {
    const std::vector<int64_t> ids(tokens.begin(), tokens.end());
    const tt::Tensor x = model_.features(tt::from_data(ids, {1, std::ssize(ids)}, model_.device()), &cache_);
    return static_cast<int32_t>(tt::argmax(model_.head(x.select(1, -1)), -1).item<int64_t>());
  }

  tt::LanguageModel& model_;
  tt::PagedCache cache_;
  tt::PrefixCache prefix_;
};

}  // namespace tinymlperf
