// AttentionCache: the interface by which attention keeps the keys and values of earlier tokens, so that a new
// token costs one row of attention instead of T rows. The caches of this folder implement it.
#pragma once

#include <functional>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

struct KeysAndValues {
  Tensor keys, values;  // [B, G, S, D]
};

// The sizes of a model's KV cache: for each layer, a token has keys [G, D] and values [G, D].
struct KvShape {
  int64_t layers = 0, groups = 0, head_size = 0;
  bool exists() const { return layers > 0; }  // false for a model that does not use a cache
};

// The positions of a step's T tokens: first, first + 1, ... in every sequence; or, if the step has tokens of
// sequences of different lengths, one position per token.
struct Positions {
  int64_t first = 0;
  Tensor each{};    // i64 [T], or undefined
  int64_t end = 0;  // if `each` is defined: larger than every position

  Positions(int64_t start = 0) : first(start) {}
  Positions(Tensor positions, int64_t bound) : each(std::move(positions)), end(bound) {}
  bool differ() const { return each.defined(); }
  // The first position, for code that knows steps of equal positions only.
  operator int64_t() const {
    if (!differ()) return first;
    fail(
        "TT-NN-28",
        "a step with sequences of different lengths has no first position\n  hint: pass SequencePlace::start "
        "as it is to LearnedPositions::rows and Rotary::turn");
  }
};

class AttentionCache {
 public:
  virtual ~AttentionCache() = default;
  // The number of cached tokens, which is the position of the next token. A model calls it, or positions(),
  // once per forward pass, before its first layer.
  virtual int64_t position() const = 0;
  virtual Positions positions() const { return position(); }
  // Appends the new tokens' k, v [B, G, T, D] to layer `layer` (from 0; one call per layer and pass). Returns
  // all keys and values of the layer, the new ones last.
  virtual KeysAndValues append(int64_t layer, const Tensor& k, const Tensor& v) = 0;
  // Appends k, v and returns the attention of q [B, H, T, D] to all tokens of the layer, [B, H, T, D].
  virtual Tensor attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionOptions& rules) {
    const KeysAndValues all = append(layer, k, v);
    return scaled_dot_product_attention(q, all.keys, all.values, rules);
  }
  // Computes causal attention for which there is no kernel: appends k and v, calls f(q, keys, values) for
  // each sequence with its rows q [1, H, t, D] and all of its tokens [1, G, S, D], and returns the results as
  // [B, H, T, D]. A cache that does not have them in one piece copies them in each step.
  using Attend = std::function<Tensor(const Tensor& q, const Tensor& keys, const Tensor& values)>;
  virtual Tensor attend_by(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v,
                           const Attend& f) {
    const KeysAndValues all = append(layer, k, v);
    return f(q, all.keys, all.values);
  }
};

// The position of a forward pass in its sequence: the start, or the end of the cached tokens.
struct SequencePlace {
  AttentionCache* cache = nullptr;
  Positions start{};
  static SequencePlace after(AttentionCache* cache) {
    return {cache, cache ? cache->positions() : Positions(0)};
  }
};

}  // namespace tinytorch::inline TT_BUILD
