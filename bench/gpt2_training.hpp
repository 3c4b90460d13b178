// Training step of GPT-2 124M for the CPU benchmarks: f32, without dropout; forward, backward, gradient
// clipping, AdamW. The tokens are random but the same in every step, so that the loss falls and can be
// compared with a peer's.
#pragma once

#include <tinytorch/layers/adam.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/gpt2.hpp>

namespace bench {

struct Gpt2Training {
  tinytorch::Gpt2 model{{.embedding_dropout = 0, .attention_dropout = 0, .residual_dropout = 0}};
  tinytorch::AdamW optimizer{model.named_parameters(), {.lr = 3e-4, .beta2 = 0.95, .weight_decay = 0.1}};
  tinytorch::Tensor tokens, targets;

  Gpt2Training(int64_t batch, int64_t length)
      : tokens(tinytorch::randint(0, model.vocabulary(), {batch, length})),
        targets(tinytorch::randint(0, model.vocabulary(), {batch, length})) {}

  // Does one step and returns the loss before the update.
  double step() {
    optimizer.zero_grad();
    const tinytorch::Tensor loss = model.loss(tokens, targets);
    loss.backward();
    optimizer.step_clipped(1.0);
    return loss.item<double>();
  }
};

}  // namespace bench
