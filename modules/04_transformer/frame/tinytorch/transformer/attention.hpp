// SelfAttention: every token asks all tokens it may see and mixes their answers.  x [B, T, C] -> [B, T, C]
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.8.
#pragma once

#include <tinytorch/kv_cache/attention_cache.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/positions.hpp>

namespace tinytorch::inline TT_BUILD {

struct SelfAttentionOptions {
  int64_t features;       // C
  int64_t heads;          // H
  int64_t groups = 0;     // G, of keys and values; 0: as many as heads
  int64_t head_size = 0;  // D; 0: C / H
  bool causal = true;
  int64_t window = 0;  // keys that a query sees, its own included; 0: all
  bool bias = true;    // of both products
  double dropout = 0;  // of the probabilities
  std::shared_ptr<Rotary> rotary{};
  int64_t layer = 0;  // its number in a cache
};

class SelfAttention : public Module {
 public:
  explicit SelfAttention(const SelfAttentionOptions& given, TT_LOC)
      : options(complete(given, loc)),
        qkv(options.features, (options.heads + 2 * options.groups) * options.head_size, options.bias),
        projection(options.heads * options.head_size, options.features, options.bias) {
    add("qkv", qkv), add("projection", projection);
  }

  Tensor forward(const Tensor& x) override { return forward(x, SequencePlace{}); }

  // Task 4.8.
  Tensor forward(const Tensor& x, const SequencePlace& place);

  const SelfAttentionOptions options;  // with groups and head_size filled in
  Linear qkv, projection;

 private:
  // The options that say which keys a query may see, and the probability of dropout, which is 0 unless the
  // layer is in training mode.
  AttentionOptions rules() const {
    return {.causal = options.causal, .window = options.window, .dropout = training() ? options.dropout : 0};
  }
  static SelfAttentionOptions complete(SelfAttentionOptions o, Loc loc) {
    if (o.groups == 0) o.groups = o.heads;
    const bool counts = o.features > 0 && o.heads > 0 && o.groups > 0;
    if (!counts || o.heads % o.groups != 0 || (o.head_size == 0 && o.features % o.heads != 0)) {
      fail("TT-NN-22",
           "SelfAttention: " + std::to_string(o.features) + " features, " + std::to_string(o.heads) +
               " heads and " + std::to_string(o.groups) +
               " groups are not valid\n  rule: groups divide heads, and heads divide features unless "
               "head_size "
               "is given",
           loc);
    }
    if (o.head_size == 0) o.head_size = o.features / o.heads;
    return o;
  }
};

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/transformer/attention.hpp>
