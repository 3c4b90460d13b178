// The model that examples/serve.cpp trains if it is given none: a GPT of a hundred thousand parameters, which
// answers in the sentences of a grammar (data/grammar.hpp).
#pragma once

#include <cmath>
#include <cstdio>
#include <memory>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/data/grammar.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/clip.hpp>
#include <tinytorch/layers/schedule.hpp>
#include <tinytorch/transformer/bpe.hpp>
#include <tinytorch/transformer/bpe_trainer.hpp>
#include <tinytorch/transformer/gpt2.hpp>

namespace serve {

namespace tt = tinytorch;

struct BundledModel {
  std::unique_ptr<tt::BpeTokenizer> tokenizer;
  std::unique_ptr<tt::Gpt2> model;
};

inline constexpr const char *kTurn = "<|im_start|>", *kTurnEnd = "<|im_end|>", *kTextEnd = "<|endoftext|>";

// The form of a chat as a Jinja program, which other programs than this one execute.
inline constexpr const char* kChatTemplate =
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% "
    "endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

// Texts and chats in turn. In a chat, each message is a sentence.
inline tt::Tokens training_tokens(const tt::BpeTokenizer& tokenizer, size_t count) {
  const tt::grammar::Grammar& grammar = tt::grammar::english();
  const tt::SpecialPolicy chats{.allow_all = true};
  tt::Tokens out;
  for (uint64_t k = 0; out.size() < count; k += 4) {
    const auto sentence = [&](uint64_t i) { return grammar.sentence(1, k + i).text; };
    const auto turn = [&](const char* role, uint64_t i) {
      return kTurn + std::string(role) + "\n" + sentence(i) + kTurnEnd + "\n";
    };
    const std::string text =
        k % 8 == 0 ? sentence(0) + sentence(1) + sentence(2) + sentence(3)
                   : turn("user", 0) + turn("assistant", 1) + turn("user", 2) + turn("assistant", 3);
    const tt::Tokens added = tokenizer.encode(text + kTextEnd, chats);
    out.insert(out.end(), added.begin(), added.end());
  }
  return out;
}

// The result depends on the number of steps alone.
inline BundledModel train_bundled_model(int64_t steps) {
  constexpr int64_t kContext = 256, kBatch = 4;
  const int threads = tt::thread_count();
  tt::set_thread_count(1);  // the steps are too short to share
  tt::manual_seed(1);
  BundledModel out;
  out.tokenizer = std::make_unique<tt::BpeTokenizer>(tt::train_bpe(
      tt::grammar::text(200'000, 1), {.vocabulary = 512, .specials = {kTextEnd, kTurn, kTurnEnd}}));
  const tt::Tokens tokens = training_tokens(*out.tokenizer, 300'000);
  out.model = std::make_unique<tt::Gpt2>(tt::Gpt2Config{.vocabulary = out.tokenizer->vocabulary(),
                                                        .context = kContext,
                                                        .features = 64,
                                                        .layers = 2,
                                                        .heads = 4,
                                                        .embedding_dropout = 0,
                                                        .attention_dropout = 0,
                                                        .residual_dropout = 0,
                                                        .end_tokens = {out.tokenizer->special(kTextEnd)}});
  tt::AdamW optimizer(out.model->named_parameters(), {.lr = 3e-3});
  tt::Generator positions(1);
  const auto last = static_cast<double>(tokens.size() - kContext - 1);
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<int64_t> inputs, targets;
    for (int64_t b = 0; b < kBatch; ++b) {
      const auto* const from = tokens.data() + static_cast<int64_t>(positions.uniform() * last);
      inputs.insert(inputs.end(), from, from + kContext);
      targets.insert(targets.end(), from + 1, from + kContext + 1);
    }
    const tt::Shape shape{kBatch, kContext};
    tt::Tensor loss = out.model->loss(tt::from_data(inputs, shape), tt::from_data(targets, shape));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 50 != 0 && step + 1 != steps) continue;
    std::printf("  step %lld of %lld: loss %.3f\n", static_cast<long long>(step + 1),
                static_cast<long long>(steps), loss.item<double>());
    std::fflush(stdout);
  }
  out.model->eval();
  tt::set_thread_count(threads);
  return out;
}

}  // namespace serve
