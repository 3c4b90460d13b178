// Training step of examples/gpt2_train.cpp on one batch, for bench_cuda: GPT-2 in a 16-bit dtype with f32
// master weights; forward, backward, gradient clipping, AdamW.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/language_model_trainer.hpp>
#include <vector>

namespace bench {

struct Gpt2Step {
  int64_t B, T, C, layers, heads, vocabulary;

  // GPT-2 small. The vocabulary is padded from 50257 to a multiple of 128 tokens, for the peer, too.
  static Gpt2Step small(int64_t batch) { return {batch, 1024, 768, 12, 12, 50304}; }
  // A small model for dry runs.
  static Gpt2Step tiny() { return {2, 16, 16, 1, 2, 64}; }

  // Conversion from and to the fields `shape` and `options` of a CudaCase.
  using Options = std::map<std::string, int64_t>;
  static Gpt2Step of(const std::vector<int64_t>& shape, const Options& options) {
    return {
        shape[0], shape[1], shape[2], options.at("layers"), options.at("heads"), options.at("vocabulary")};
  }
  Options options() const { return {{"layers", layers}, {"heads", heads}, {"vocabulary", vocabulary}}; }

  double tokens() const { return static_cast<double>(B * T); }
  double flops() const {
    const int64_t parameters = (vocabulary + T) * C + layers * (12 * C * C + 13 * C) + 2 * C;
    return tokens() * tinytorch::training_flops_per_token(parameters, layers, T, C);
  }

  std::function<tinytorch::Tensors()> work(tinytorch::DType dtype, tinytorch::Device device) const {
    namespace tt = tinytorch;
    const auto model = std::make_shared<tt::Gpt2>(tt::Gpt2Config{.vocabulary = vocabulary,
                                                                 .context = T,
                                                                 .features = C,
                                                                 .layers = layers,
                                                                 .heads = heads,
                                                                 .embedding_dropout = 0,
                                                                 .attention_dropout = 0,
                                                                 .residual_dropout = 0});
    model->to(device);
    model->to(dtype);
    const auto optimizer = std::make_shared<tt::AdamW>(model->named_parameters(),
                                                       tt::AdamOptions{.lr = 6e-4, .weight_decay = 0.1});
    optimizer->exclude_from_weight_decay([](const tt::NamedTensor& p) { return p.tensor.rank() < 2; });
    const auto numbers = [&] { return tt::randint(0, vocabulary, {B, T}, tt::i64, device); };
    return [model, optimizer, tokens = numbers(), targets = numbers()]() -> tt::Tensors {
      optimizer->zero_grad();
      const tt::Tensor loss = model->loss(tokens, targets);
      loss.backward();
      return {loss.detach(), optimizer->step_clipped(1)};
    };
  }
};

}  // namespace bench
