// compare_caches: how much a cache changes the tokens that a model expects, against a cache that changes
// nothing.
//
//   ContiguousCache full(model.kv_shape(), {.capacity = 1000});
//   RingCache ring(model.kv_shape(), {.capacity = 256});
//   CacheDifference d = compare_caches(model, full, ring, tokens, 500);
//
// Both caches read the same text, so a difference does not come from another text. KL(p || q) is the mean of
// log(p / q) over tokens drawn from p, the distribution by the full cache, in nats.
#pragma once

#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/kv_cache/attention_cache.hpp>

namespace tinytorch::inline TT_BUILD {

struct CacheDifference {
  double mean_kl = 0, worst_kl = 0;
  double top_agreement = 0;  // share of the positions at which the likeliest token is the same
  int64_t positions = 0;
};

// Logits [..., V] of the same positions.
inline CacheDifference compare_logits(const Tensor& full, const Tensor& other, TT_LOC) {
  if (full.shape() != other.shape() || full.rank() < 1 || full.numel() == 0) {
    fail("TT-SHAPE-02",
         "compare_logits: " + full.describe() + " and " + other.describe() +
             "\n  rule: logits [..., V] of the same positions, at least one",
         loc);
  }
  const int64_t V = full.size(-1);
  const Tensor p = log_softmax(full.to(cpu).to(DType::f64).reshape({-1, V})),
               q = log_softmax(other.to(cpu).to(DType::f64).reshape({-1, V}));
  const Tensor kl = sum(exp(p) * (p - q), {1});
  const std::vector<int64_t> top = argmax(p, 1).to_vector<int64_t>(),
                             other_top = argmax(q, 1).to_vector<int64_t>();
  CacheDifference out{.mean_kl = mean(kl).item<double>(), .worst_kl = max(kl).item<double>()};
  out.positions = kl.numel();
  int64_t equal = 0;
  for (size_t i = 0; i < top.size(); ++i) equal += top[i] == other_top[i] ? 1 : 0;
  out.top_agreement = static_cast<double>(equal) / static_cast<double>(out.positions);
  return out;
}

// Feeds tokens i64 [B, T] to the model with each of two empty caches: the first `prompt` of them in one step,
// and one in each further step. The logits after each step are compared: T - prompt + 1 positions.
template <class Model>
CacheDifference compare_caches(Model& model, AttentionCache& full, AttentionCache& other,
                               const Tensor& tokens, int64_t prompt, TT_LOC) {
  if (tokens.rank() != 2 || prompt < 1 || prompt > tokens.size(1) || full.position() != 0 ||
      other.position() != 0) {
    fail("TT-KV-01", "compare_caches needs empty caches, tokens [B, T] and a prompt of 1 to T tokens", loc);
  }
  const NoGrad no_grad;
  const auto logits = [&](AttentionCache& cache) {
    Tensors steps{model.forward(slice(tokens, 1, 0, prompt), &cache).select(1, -1)};
    for (int64_t t = prompt; t < tokens.size(1); ++t)
      steps.push_back(model.forward(slice(tokens, 1, t, t + 1), &cache).select(1, -1));
    return stack(steps);
  };
  const Tensor wanted = logits(full);
  return compare_logits(wanted, logits(other), loc);
}

}  // namespace tinytorch::inline TT_BUILD
