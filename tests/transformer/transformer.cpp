// The umbrella header of transformer/ is enough to encode a text, build a model and generate.
#include <doctest/doctest.h>

#include <tinytorch/transformer/transformer.hpp>

namespace tt = tinytorch;

TEST_CASE("with transformer.hpp alone a small GPT-2 is built on BPE tokens, evaluated and sampled") {
  tt::manual_seed(1);
  const tt::BpeTokenizer tokenizer(tt::train_bpe("a rose is a rose is a rose", {.vocabulary = 260}));
  const tt::Tokens tokens = tokenizer.encode("a rose is");
  CHECK(tokenizer.decode(tokens) == "a rose is");
  tt::Gpt2 model(
      {.vocabulary = tokenizer.vocabulary(), .context = 16, .features = 8, .layers = 1, .heads = 2});
  const std::vector<int64_t> ids(tokens.begin(), tokens.end());
  const tt::Tensor input = tt::from_data(ids, {1, static_cast<int64_t>(ids.size())}, model.device());
  CHECK(model.loss(input, input).item<double>() > 0);
  const tt::Generated out = tt::generate(model, tokens, {.max_tokens = 3, .sampling = {.top_k = 5}});
  CHECK(out.tokens.size() == 3);
}
