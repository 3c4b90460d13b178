// A small language model of the checks. It counts its forward passes, and it computes texts without a cache.
#pragma once

#include <support/check.hpp>
#include <tinytorch/transformer/language_model.hpp>

namespace course {

using Tokens32 = std::vector<int32_t>;
inline constexpr int64_t kVocabulary = 23;

// A model in f64 with random matrices: embeddings of tokens and positions, two layers of attention without
// weights, and a head. It records the number of tokens of each forward pass.
class Recorder : public LanguageModel {
 public:
  explicit Recorder(int64_t context, bool cached = true) : context_(context), cached_(cached) {
    add_parameter("token", token_), add_parameter("position", position_), add_parameter("head", head_);
    eval();
  }
  int64_t vocabulary() const override { return kVocabulary; }
  int64_t context() const override { return context_; }
  KvShape kv_shape() const override { return cached_ ? KvShape{2, 2, kFeatures / 2} : KvShape{}; }
  Tensor features(const Tensor& tokens, AttentionCache* cache) override {
    lengths.push_back(tokens.numel());
    return computed(tokens, cache);
  }
  Tensor head(const Tensor& x) override { return matmul(x, head_.t()); }

  // The logits after these tokens, of which the context holds the last, without a cache.
  Numbers logits(const Tokens32& tokens) {
    const NoGrad no_grad;
    const auto length = std::min(std::ssize(tokens), context());
    const std::vector<int64_t> ids(tokens.end() - length, tokens.end());
    return head(computed(from_data(ids, {1, length}), nullptr))
        .select(1, -1)
        .select(0, 0)
        .to_vector<double>();
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

  std::vector<int64_t> lengths;

 private:
  static constexpr int64_t kFeatures = 12;

  static Tensor random_rows(int64_t rows) {
    const Shape shape{rows, kFeatures};
    return from_data(Values::random(f64, shape, Layout::contiguous, -2, 2).numbers(), shape);
  }
  Tensor computed(const Tensor& tokens, AttentionCache* cache) {
    const int64_t B = tokens.size(0), T = tokens.size(1);
    const Positions at = cache ? cache->positions() : Positions(0);
    const Tensor positions = at.differ() ? at.each : arange(at.first, at.first + T);
    Tensor x = index_select(token_, 0, tokens.reshape({-1})).reshape({B, T, kFeatures}) +
               index_select(position_, 0, positions);
    for (int64_t layer = 0; layer < 2; ++layer) {
      const Tensor heads = x.reshape({B, T, 2, kFeatures / 2}).transpose(1, 2);
      const Tensor y = cache ? cache->attend(layer, heads, heads, heads, {.causal = true})
                             : scaled_dot_product_attention(heads, heads, heads, {.causal = true});
      x = tanh(x + y.transpose(1, 2).reshape({B, T, kFeatures}));
    }
    return x;
  }

  int64_t context_;
  bool cached_;
  Tensor token_ = random_rows(kVocabulary), position_ = random_rows(context_),
         head_ = random_rows(kVocabulary);
};

inline Tokens32 prompt_of(int64_t length) {
  Tokens32 tokens;
  for (int64_t i = 0; i < length; ++i) tokens.push_back(static_cast<int32_t>(uniform(0, kVocabulary)));
  return tokens;
}

}  // namespace course
