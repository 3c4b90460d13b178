// The smallest language model: the features of a token are a row of a table, the logits are a product with
// them.
#pragma once

#include <tinytorch/layers/embedding.hpp>
#include <tinytorch/transformer/language_model.hpp>

namespace course {

using namespace tinytorch;

struct Bigram : LanguageModel {
  Embedding table;
  Linear out;
  bool shows_weight;
  Bigram(int64_t V, int64_t C, bool shows) : table(V, C), out(C, V, false), shows_weight(shows) {
    add("table", table), add("out", out);
  }
  int64_t vocabulary() const override { return out.weight.size(0); }
  int64_t context() const override { return 100; }
  Tensor features(const Tensor& tokens, AttentionCache*) override { return table(tokens); }
  Tensor head(const Tensor& x) override { return out(x); }
  Tensor head_weight() const override { return shows_weight ? out.weight : Tensor(); }
};

}  // namespace course
