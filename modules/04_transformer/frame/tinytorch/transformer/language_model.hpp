// LanguageModel: the interface of decoder-only transformers that training, loading and generation use.
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.12. It is cut
// from the library's header by modules/frames.py.
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

  Tensor loss(const Tensor& tokens, const Tensor& targets, TT_LOC);  // task 4.12

 protected:
  static void require_tokens(const Tensor& tokens, TT_LOC) {
    if (tokens.rank() == 2 && tokens.dtype() == DType::i64 && tokens.size(1) > 0) return;
    fail("TT-NN-23", "a language model takes tokens i64 [B, T] with T > 0, got " + tokens.describe(), loc);
  }
};

// Task 4.12.
inline void initialize_transformer(const Module& model, double deviation, int64_t residual_branches = 1);

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/transformer/language_model.hpp>
