// Small models whose logits depend on every earlier token, and what they give without a cache.
#pragma once

#include <cmath>
#include <support/errors.hpp>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/llama.hpp>

namespace test {

namespace tt = tinytorch;

inline tt::Gpt2 small_gpt2(tt::DType dtype = tt::f32) {
  tt::manual_seed(3);
  tt::Gpt2 model(
      {.vocabulary = 61, .context = 96, .features = 24, .layers = 3, .heads = 3, .deviation = 0.3});
  model.eval();
  model.to(dtype);
  return model;
}
inline tt::Llama small_llama(tt::DType dtype = tt::f32) {
  tt::manual_seed(4);
  tt::Llama model({.vocabulary = 61,
                   .context = 200,
                   .features = 24,
                   .layers = 2,
                   .heads = 6,
                   .groups = 2,
                   .hidden = 40,
                   .deviation = 0.3});
  model.eval();
  model.to(dtype);
  return model;
}

inline tt::Tensor some_tokens(int64_t B, int64_t T, uint64_t seed = 1) {
  tt::Generator generator(seed);
  std::vector<int64_t> ids(static_cast<size_t>(B * T));
  for (int64_t& id : ids) id = static_cast<int64_t>(generator.uniform(0, 61));
  return tt::from_data(ids, {B, T});
}

// The largest difference of two tensors; infinite if one has a NaN.
inline double difference(const tt::Tensor& a, const tt::Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, std::isnan(x[i] - y[i]) ? INFINITY : std::abs(x[i] - y[i]));
  return worst;
}

// Feeds tokens [B, T] to the model in steps of these lengths and returns the logits of all, [B, T, V].
template <class Model>
tt::Tensor in_steps(Model& model, tt::AttentionCache& cache, const tt::Tensor& tokens,
                    const std::vector<int64_t>& steps) {
  const tt::NoGrad no_grad;
  tt::Tensors parts;
  int64_t at = 0;
  for (const int64_t n : steps) {
    parts.push_back(model.forward(tt::slice(tokens, 1, at, at + n), &cache));
    at += n;
  }
  REQUIRE(at == tokens.size(1));
  return tt::cat(parts, 1);
}

}  // namespace test
