// EvictingCache: constant memory for a long text, by keeping the tokens that get most attention. It changes
// the output of a model: compare_caches.hpp measures how much.
//
//   EvictingCache cache(model.kv_shape(), {.budget = 256, .recent = 32});
//   CacheDifference d = compare_caches(model, full, cache, tokens, 500);    // d.mean_kl, d.top_agreement
//
// Each layer and head of keys keeps its own tokens: the last `recent` ones, and of the others those with the
// largest sum of attention weights. Positions keep counting.
// Source: Zhang et al., "H2O: heavy-hitter oracle for efficient generative inference", 2023; Li et al.,
// "SnapKV: LLM knows what you are looking for before generation", 2024.
#pragma once

#include <algorithm>
#include <cmath>
#include <tinytorch/kv_cache/attention_cache.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct EvictionOptions {
  int64_t budget = 0;   // tokens that a layer keeps
  int64_t recent = 16;  // of these, the last ones, which are always kept
  enum class Policy {
    heavy_hitters,  // after each step, by the weights of all queries so far: at most `budget` tokens (H2O)
    prompt          // once, after the first step, by the weights of its last `recent` queries (SnapKV)
  } policy = Policy::heavy_hitters;
};

class EvictingCache : public AttentionCache {
 public:
  EvictingCache(const KvShape& shape, const EvictionOptions& options, TT_LOC)
      : shape_(shape), options_(options) {
    if (!shape.exists() || options.recent < 1 || options.budget < options.recent) {
      fail("TT-KV-01",
           "an evicting cache needs layers, recent >= 1 and budget >= recent; got a budget of " +
               std::to_string(options.budget) + " and recent = " + std::to_string(options.recent),
           loc);
    }
    clear();
  }
  void clear() {
    layers_.assign(static_cast<size_t>(shape_.layers), {});
    position_ = 0;
  }

  int64_t position() const override { return position_; }
  // Tokens that a layer holds.
  int64_t held(int64_t layer) const {
    const Tensor& keys = layers_.at(static_cast<size_t>(layer)).keys;
    return keys.defined() ? keys.size(2) : 0;
  }
  KeysAndValues append(int64_t, const Tensor&, const Tensor&) override {
    fail("TT-KV-05",
         "an evicting cache must see the queries\n  hint: in SelfAttention::forward, call "
         "cache->attend(layer, q, "
         "k, v, rules), which appends and attends");
  }
  Tensor attend_by(int64_t, const Tensor&, const Tensor&, const Tensor&, const Attend&) override {
    fail("TT-KV-04", "attention to an evicting cache is that of its kernels, without a soft cap");
  }
  // A pass that fails leaves the cache as it was: the layers change when the last one is done.
  Tensor attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v,
                const AttentionOptions& rules) override {
    if (!rules.causal || rules.window > 0 || rules.dropout > 0 || rules.lengths.defined())
      fail("TT-KV-04", "attention to an evicting cache is causal, without a window, dropout and lengths");
    if (layer == 0) next_ = layers_;
    Layer& own = next_.at(static_cast<size_t>(layer));
    const bool first = !own.keys.defined();
    own.keys = first ? k : cat({own.keys, k}, 2);
    own.values = first ? v : cat({own.values, v}, 2);
    const Tensor y = scaled_dot_product_attention(q, own.keys, own.values, rules);
    count(own, q, first, rules);
    if (layer == shape_.layers - 1) {
      layers_ = std::move(next_);
      position_ += q.size(2);
    }
    return y;
  }

 private:
  struct Layer {
    Tensor keys, values;  // [B, G, S, D]
    Tensor weights;       // f32 [B, G, S]: sums of attention weights
  };

  // Adds the weights of a step's queries, and evicts tokens.
  void count(Layer& own, const Tensor& q, bool first, const AttentionOptions& rules) const {
    const bool by_prompt = options_.policy == EvictionOptions::Policy::prompt;
    if (by_prompt && !first) return;
    const int64_t T = q.size(2), S = own.keys.size(2);
    const int64_t from = by_prompt ? std::max<int64_t>(0, T - options_.recent) : 0;
    const Tensor added = received(q, own.keys, from, rules);
    own.weights = first ? added : pad(own.weights, {{0, 0}, {0, 0}, {0, T}}) + added;
    if (S > options_.budget) evict(own);
  }
  // The attention weights that each key gets from queries from .. T - 1 and all query heads: f32 [B, G, S].
  static Tensor received(const Tensor& q, const Tensor& keys, int64_t from, const AttentionOptions& rules) {
    constexpr int64_t kRows = 64;  // queries at a time, so that memory does not grow with T S
    const int64_t B = q.size(0), H = q.size(1), T = q.size(2), D = q.size(3), G = keys.size(1),
                  S = keys.size(2);
    const double scale = rules.scale == 0 ? 1 / std::sqrt(static_cast<double>(D)) : rules.scale;
    const Tensor columns = keys.to(DType::f32).transpose(2, 3);  // [B, G, D, S]
    Tensor weights = zeros({B, G, S}, DType::f32, q.device());
    for (int64_t t = from; t < T; t += kRows) {
      const int64_t n = std::min(kRows, T - t);
      const Tensor rows = slice(q, 2, t, t + n).to(DType::f32).reshape({B, G, H / G * n, D}) * scale;
      const Tensor future = triu(ones({n, S}, DType::f32, q.device()), S - T + t + 1);
      const Tensor scores = matmul(rows, columns).reshape({B, G, H / G, n, S}) + future * -1e30;
      weights = weights + sum(softmax(scores, -1), {2, 3});
    }
    return weights;
  }

  void evict(Layer& own) const {
    const int64_t B = own.keys.size(0), G = own.keys.size(1), S = own.keys.size(2), D = own.keys.size(3);
    const int64_t recent = options_.recent, others = options_.budget - recent;
    const Tensor last = expand(arange(S - recent, S, 1, DType::i64, own.keys.device()), {B, G, recent});
    const Tensor best = topk(slice(own.weights, 2, 0, S - recent), others).indices;
    const Tensor kept = cat({sort(best).values, last}, 2);  // in the order of the text
    const Tensor rows = expand(kept.unsqueeze(3), {B, G, options_.budget, D});
    own.keys = gather(own.keys, 2, rows);
    own.values = gather(own.values, 2, rows);
    own.weights = gather(own.weights, 2, kept);
  }

  KvShape shape_;
  EvictionOptions options_;
  std::vector<Layer> layers_, next_;  // next_: of the running pass
  int64_t position_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD
