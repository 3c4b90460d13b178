// LanguageModel: tokens in, scores of the next token out. What training, loading and generation need to know
// of a decoder-only transformer, whichever it is.
//
//   tokens i64 [B, T] -> features [B, T, C] -> logits [B, T, V]       logits[b, t] are about token t + 1
//   loss = mean cross entropy of logits[b, t] and targets[b, t]; targets of -100 do not count
#pragma once

#include <cmath>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/attention.hpp>

namespace tinytorch::inline TT_BUILD {

class LanguageModel : public Module {
 public:
  virtual int64_t vocabulary() const = 0;  // V
  virtual int64_t context() const = 0;     // the longest sequence it was made for
  // Tokens that end a text: generate() stops at them unless told otherwise.
  virtual std::vector<int64_t> end_tokens() const { return {}; }
  // The output of the last norm: [B, T] -> [B, T, C]. With a cache, tokens follow those it holds.
  virtual Tensor features(const Tensor& tokens, AttentionCache* cache = nullptr) = 0;
  // [..., C] -> [..., V]
  virtual Tensor head(const Tensor& features) = 0;
  // [V, C] where the head is nothing but a product with it: then the loss needs no logits in memory.
  virtual Tensor head_weight() const { return {}; }

  Tensor forward(const Tensor& tokens) override { return forward(tokens, nullptr); }
  Tensor forward(const Tensor& tokens, AttentionCache* cache) { return head(features(tokens, cache)); }

  // Mean cross entropy of what features(tokens) says and the targets, i64 [B, T], usually the tokens moved
  // by one place; targets of -100 do not count. Where there is a head_weight, linear_cross_entropy, which
  // never holds all logits; else cross_entropy of head(x), [B T, V].
  Tensor loss(const Tensor& tokens, const Tensor& targets, TT_LOC) {
    const Scope scope = forward_scope(loc);
    if (!(tokens.shape() == targets.shape())) {
      fail("TT-SHAPE-02",
           "loss: tokens and targets must have one shape: " + tokens.describe() + ", " + targets.describe(),
           loc);
    }
    const Tensor x = features(tokens);
    if (const Tensor weight = head_weight(); weight.defined())
      return linear_cross_entropy(x, weight, targets, {}, 0, loc);
    const Tensor logits = head(x);
    return cross_entropy(logits.reshape({-1, logits.size(-1)}), targets.reshape({-1}), {}, loc);
  }

 protected:
  static void require_tokens(const Tensor& tokens, TT_LOC) {
    if (tokens.rank() == 2 && tokens.dtype() == DType::i64 && tokens.size(1) > 0) return;
    fail("TT-NN-23", "a language model takes tokens i64 [B, T] with T > 0, got " + tokens.describe(), loc);
  }
};

// Matrices normal with `deviation`, biases 0, norms as they are. The branches' last matrices add up on the
// residual stream: GPT-2 divides their deviation by the root of their number, 2 L (Radford et al., 2019).
inline void initialize_transformer(const Module& model, double deviation, int64_t residual_branches = 1) {
  for (const auto& [name, parameter] : model.named_parameters()) {
    const bool ends_branch =
        name.ends_with("attention.projection.weight") || name.ends_with("mlp.down.weight");
    const double shrink = ends_branch ? std::sqrt(static_cast<double>(residual_branches)) : 1;
    if (parameter.rank() == 2) init::normal(parameter, 0, deviation / shrink);
    if (name.ends_with(".bias")) init::constant(parameter, 0);
  }
}

}  // namespace tinytorch::inline TT_BUILD
