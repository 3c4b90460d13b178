// LanguageModel: the interface of decoder-only transformers that training, loading and generation use.
//
//   tokens i64 [B, T] -> features [B, T, C] -> logits [B, T, V]       logits[b, t] predict token t + 1
//   loss = mean cross entropy of logits[b, t] and targets[b, t]; targets of -100 are ignored
#pragma once

#include <cmath>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/attention.hpp>

namespace tinytorch::inline TT_BUILD {

class LanguageModel : public Module {
 public:
  virtual int64_t vocabulary() const = 0;  // V
  virtual int64_t context() const = 0;     // the longest sequence
  // The tokens that end a text. generate() stops at them by default.
  virtual std::vector<int64_t> end_tokens() const { return {}; }
  // The sizes of a cache for this model. By default it does not exist, and the model ignores the caches that
  // it is given.
  virtual KvShape kv_shape() const { return {}; }
  // False if the host must know the lengths of the texts in a decoding step. Then no CUDA graph of one step
  // serves the next ones (graph_decode.hpp), and a GPU decodes step by step.
  virtual bool steps_fit_graphs() const { return true; }
  // The output of the final norm: [B, T] -> [B, T, C]. With a cache, the tokens follow the cached ones.
  virtual Tensor features(const Tensor& tokens, AttentionCache* cache = nullptr) = 0;
  // [..., C] -> [..., V]
  virtual Tensor head(const Tensor& features) = 0;
  // [V, C] if the head is a product with this matrix alone, so that the loss need not store all logits; else
  // undefined.
  virtual Tensor head_weight() const { return {}; }

  Tensor forward(const Tensor& tokens) override { return forward(tokens, nullptr); }
  Tensor forward(const Tensor& tokens, AttentionCache* cache) { return head(features(tokens, cache)); }

  // The mean cross entropy of the predictions for `tokens` and the targets, both i64 [B, T]. The targets are
  // usually the tokens shifted by one; targets of -100 are ignored. With a head_weight it is
  // linear_cross_entropy, which never stores all logits, else cross_entropy of head(features) [B T, V].
  Tensor loss(const Tensor& tokens, const Tensor& targets, TT_LOC) {
    const Scope scope = forward_scope(loc);
    if (!(tokens.shape() == targets.shape())) {
      fail("TT-SHAPE-02",
           "loss: tokens and targets must have the same shape: " + tokens.describe() + ", " +
               targets.describe(),
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

// Initializes matrices by a normal distribution with `deviation` and biases by 0; norms are not changed. The
// outputs of all branches are summed in the residual stream, so GPT-2 divides the deviation of each branch's
// last matrix by the square root of their number, 2 L (Radford et al., 2019).
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
