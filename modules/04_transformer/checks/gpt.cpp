#include <tinytorch/transformer/gpt2.hpp>

#include "growing_cache.hpp"
#include "layers.hpp"

using namespace course;

namespace {

constexpr double kEps = 1e-3;

Gpt2Config small(int64_t layers = 2, bool tied = true) {
  return {.vocabulary = 11,
          .context = 9,
          .features = 8,
          .layers = layers,
          .heads = 2,
          .hidden = 12,
          .eps = kEps,
          .embedding_dropout = 0,
          .attention_dropout = 0,
          .residual_dropout = 0,
          .tied = tied};
}

// The logits of tokens [B, T] by the definition.
Numbers gpt_of(const Gpt2& model, const Numbers& tokens, int64_t B, int64_t T) {
  const Parameters p(model);
  const Gpt2Config& c = model.config;
  Numbers x;
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (size_t d = 0; d < static_cast<size_t>(c.features); ++d) {
      const auto C = static_cast<size_t>(c.features);
      x.push_back(p["token_embedding.weight"][static_cast<size_t>(tokens[i]) * C + d] +
                  p["position_embedding.weight"][i % static_cast<size_t>(T) * C + d]);
    }
  }
  const HeadSizes s{B, T, c.features, c.heads, c.heads, c.features / c.heads};
  for (int64_t i = 0; i < c.layers; ++i) x = block_of(p.below("blocks." + std::to_string(i)), x, s, c.eps);
  return linear_of(p.below(c.tied ? "token_embedding" : "head"), norm_of(p.below("final_norm"), x, c.eps),
                   c.features);
}

// The mean of -log softmax(logits)[target], without the model's loss().
Tensor loss_of(Gpt2& model, const Tensor& tokens, const Tensor& targets) {
  const Tensor logits = model(tokens);
  return cross_entropy(logits.reshape({-1, model.vocabulary()}), targets.reshape({-1}));
}

}  // namespace

TEST_CASE("4.11 the names of the parameters, and a tied head is not a parameter") {
  std::vector<std::string> names;
  for (const NamedTensor& p : Gpt2(small(1)).named_parameters()) names.push_back(p.name);
  std::vector<std::string> want = {"token_embedding.weight", "position_embedding.weight"};
  for (const char* name :
       {"attention_norm.weight", "attention_norm.bias", "attention.qkv.weight", "attention.qkv.bias",
        "attention.projection.weight", "attention.projection.bias", "mlp_norm.weight", "mlp_norm.bias",
        "mlp.up.weight", "mlp.up.bias", "mlp.down.weight", "mlp.down.bias"}) {
    want.push_back(std::string("blocks.0.") + name);
  }
  want.push_back("final_norm.weight"), want.push_back("final_norm.bias");
  expect_equal("parameters of a model of one layer", names, want);
  // The model has V C + 9 C + 2 C parameters, and per layer 4 C + (C + 1) (3 C) + (C + 1) C + (C + 1) F + (F
  // + 1) C.
  const int64_t layer = 4 * 8 + 9 * 24 + 9 * 8 + 9 * 12 + 13 * 8;
  expect_equal("parameters, 3 layers", Gpt2(small(3)).parameter_count(), (11 + 9 + 2) * 8 + 3 * layer);
  expect_equal("parameters, 3 layers, untied head", Gpt2(small(3, false)).parameter_count(),
               (22 + 9 + 2) * 8 + 3 * layer);
}

TEST_CASE("4.11 the logits are those of the definition") {
  for (const int64_t layers : {0, 1, 3}) {
    Gpt2 model(small(layers));
    randomize(model, 0.4);
    const Tensor tokens = random_tokens({2, 5}, 11);
    expect_close("logits of tokens [2, 5], " + std::to_string(layers) + " layers", model(tokens),
                 gpt_of(model, numbers_of(tokens), 2, 5), {2, 5, 11}, {.roundings = 10000});
  }
}

TEST_CASE("4.11 an untied head") {
  Gpt2 model(small(1, false));
  randomize(model, 0.4);
  const Tensor tokens = random_tokens({1, 9}, 11);
  expect_close("logits of tokens [1, 9], tied = false", model(tokens),
               gpt_of(model, numbers_of(tokens), 1, 9), {1, 9, 11}, {.roundings = 10000});
  expect("head_weight() of a model that is not tied is not the embedding",
         model.head_weight().impl() != model.token_embedding.weight.impl());
  Gpt2 tied(small(1));
  expect("head_weight() of a tied model is the embedding itself, not a copy",
         tied.head_weight().impl() == tied.token_embedding.weight.impl());
}

TEST_CASE("4.11 the future does not leak: not a bit changes when a later token does") {
  Gpt2 model(small());
  const NoGrad no_grad;
  for (const int64_t changed : {1, 4, 8}) {
    const Tensor tokens = random_tokens({2, 9}, 11);
    Numbers changes = numbers_of(tokens);
    for (size_t i = 0; i < changes.size(); ++i) {
      if (static_cast<int64_t>(i % 9) >= changed) changes[i] = changes[i] < 10 ? changes[i] + 1 : 0;
    }
    const Tensor other = tensor_of({2, 9}, changes, i64);
    expect("logits before position " + std::to_string(changed) +
               " if all tokens from there on change: the same bits",
           numbers_of(slice(model(tokens), 1, 0, changed)) == numbers_of(slice(model(other), 1, 0, changed)));
    expect("the logits from there on change",
           numbers_of(slice(model(tokens), 1, changed)) != numbers_of(slice(model(other), 1, changed)));
  }
}

TEST_CASE("4.11 the order of the tokens matters") {
  Gpt2 model(small());
  randomize(model);
  const Tensor a = tensor_of({1, 3}, {1, 2, 3}, i64), b = tensor_of({1, 3}, {2, 1, 3}, i64);
  expect("tokens {1, 2, 3} and {2, 1, 3} have different logits for the last token",
         numbers_of(slice(model(a), 1, 2)) != numbers_of(slice(model(b), 1, 2)),
         "without positions attention cannot distinguish orders");
}

TEST_CASE("4.11 with a cache, positions continue") {
  Gpt2 model(small());
  randomize(model);
  const NoGrad no_grad;
  const Tensor tokens = random_tokens({2, 7}, 11);
  GrowingCache cache;
  Tensors parts;
  for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, 4}, {4, 5}, {5, 7}}) {
    parts.push_back(model.forward(slice(tokens, 1, from, to), &cache));
    cache.held = to;
  }
  expect_close("tokens 0 to 3, then 4, then 5 and 6, with a cache", cat(parts, 1), numbers_of(model(tokens)),
               {2, 7, 11}, {.roundings = 1000});
}

TEST_CASE("4.11 the loss of an untrained model is about log V") {
  Gpt2Config config = small();
  config.vocabulary = 50;
  Gpt2 model(config);
  const double loss = loss_of(model, random_tokens({8, 9}, 50), random_tokens({8, 9}, 50)).item<double>();
  expect("loss of an untrained model of 50 tokens: log 50 = 3.91, within 0.15",
         std::abs(loss - std::log(50.0)) < 0.15, "it is " + shown(loss));
}

TEST_CASE("4.11 every parameter gets a gradient; a tied table gets those of both uses") {
  for (const bool tied : {true, false}) {
    Gpt2 model(small(2, tied));
    loss_of(model, tensor_of({2, 9}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8}, i64),
            random_tokens({2, 9}, 11))
        .backward();
    expect_gradients(tied ? "Gpt2" : "Gpt2, tied = false", model);
    const Numbers g = numbers_of(model.token_embedding.weight.grad());
    double unused = 0;
    for (size_t i = 9 * 8; i < 11 * 8; ++i) unused += std::abs(g[i]);
    expect(tied ? "token 9 is not in the text, but the head uses its row: the row has a gradient"
                : "token 9 is not in the text: its row has no gradient",
           (unused > 0) == tied);
  }
}

TEST_CASE("4.11 dropout of the embedding acts in training only") {
  Gpt2Config config = small();
  config.embedding_dropout = 0.5;
  Gpt2 model(config);
  const Tensor tokens = random_tokens({1, 9}, 11);
  expect("in training two forward passes differ", numbers_of(model(tokens)) != numbers_of(model(tokens)));
  model.eval();
  expect("after eval() two forward passes are equal", numbers_of(model(tokens)) == numbers_of(model(tokens)));
}

TEST_CASE("4.11 training can memorize one line") {
  const Numbers line = {7, 3, 9, 3, 1, 7, 0, 3, 10, 3};  // the token after a 3 depends on more than the 3
  Gpt2Config config = small();
  config.features = 16, config.hidden = 32;
  Gpt2 model(config);
  const Tensor tokens = tensor_of({1, 9}, {line.begin(), line.end() - 1}, i64),
               targets = tensor_of({1, 9}, {line.begin() + 1, line.end()}, i64);
  double loss = 0;
  for (int step = 0; step < 60; ++step) {
    model.zero_grad();
    const Tensor l = loss_of(model, tokens, targets);
    l.backward();
    loss = l.item<double>();
    const NoGrad no_grad;
    for (Tensor& p : model.parameters()) p.add_(sign(p.grad()), step < 40 ? -0.01 : -0.002);
  }
  expect("after 60 steps on {7, 3, 9, 3, 1, ...} the loss is below 0.1 (it began at log 11 = 2.4)",
         loss < 0.1, "it is " + shown(loss));
}
