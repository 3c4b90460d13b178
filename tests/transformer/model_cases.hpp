// Test cases that every decoder-only model must pass.
#pragma once

#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/language_model.hpp>

#include <support/values.hpp>
#include <transformer/simple_cache.hpp>

namespace model_cases {

namespace tt = tinytorch;

inline tt::Tensor tokens_of(const tt::LanguageModel& model, int64_t B, int64_t T) {
  tt::Generator g(21);
  return tt::randint(0, model.vocabulary(), {B, T}, tt::i64, tt::default_device(), g);
}

// A change of token t changes the logits from t on, and none before.
inline void check_causality(tt::LanguageModel& model) {
  model.eval();
  const tt::Tensor tokens = tokens_of(model, 1, 6), before = model(tokens);
  for (int64_t t = 0; t < 6; ++t) {
    tt::Tensor changed = tokens.clone();
    const int64_t other = (tokens.select(0, 0).select(0, t).item<int64_t>() + 1) % model.vocabulary();
    changed.slice(1, t, t + 1).fill_(other);
    const tt::Tensor after = model(changed);
    CHECK(after.slice(1, 0, t).to_vector() == before.slice(1, 0, t).to_vector());
    for (int64_t s = t; s < 6; ++s) CHECK(after.select(1, s).to_vector() != before.select(1, s).to_vector());
  }
}

inline void check_batch_rows(tt::LanguageModel& model) {
  model.eval();
  const tt::Tensor tokens = tokens_of(model, 3, 5), together = model(tokens);
  for (int64_t b = 0; b < 3; ++b) {
    check_values(model(tokens.slice(0, b, b + 1)).to_vector<double>(),
                 together.slice(0, b, b + 1).to_vector<double>(), 1e-5);
  }
}

// Every parameter has a nonzero gradient.
inline void check_gradients(tt::LanguageModel& model) {
  model.train();
  const tt::Tensor tokens = tokens_of(model, 2, 6);
  model.loss(tokens, tokens_of(model, 2, 6)).backward();
  for (const tt::NamedTensor& p : model.named_parameters()) {
    CAPTURE(p.name);
    REQUIRE(p.tensor.grad().defined());
    CHECK(tt::max(tt::abs(p.tensor.grad())).item() > 0);
  }
  model.zero_grad();
}

inline void check_cache(tt::LanguageModel& model, size_t layers) {
  model.eval();
  const tt::Tensor tokens = tokens_of(model, 2, 7), whole = model(tokens);
  SimpleCache cache(layers);
  int64_t at = 0;
  for (const int64_t n : {3, 1, 1, 2}) {
    const tt::Tensor y = model.forward(tokens.slice(1, at, at + n), &cache);
    check_values(y.to_vector<double>(), whole.slice(1, at, at + n).to_vector<double>(), 1e-4);
    at += n;
    CHECK(cache.position() == at);
  }
}

// Steps of plain gradient descent on one batch reduce the loss.
inline void check_learning(tt::LanguageModel& model) {
  model.train();
  const tt::Tensor tokens = tokens_of(model, 2, 6), targets = tokens_of(model, 2, 6);
  const double before = model.loss(tokens, targets).item<double>();
  for (int step = 0; step < 6; ++step) {
    model.zero_grad();
    model.loss(tokens, targets).backward();
    const tt::NoGrad no_grad;
    for (tt::Tensor& p : model.parameters()) p.add_(p.grad(), -0.1);
  }
  CHECK(model.loss(tokens, targets).item<double>() < before);
}

}  // namespace model_cases
