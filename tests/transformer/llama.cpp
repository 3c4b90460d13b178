#include <tinytorch/transformer/llama.hpp>

#include <support/errors.hpp>
#include <support/few.hpp>

#include <transformer/model_cases.hpp>

namespace tt = tinytorch;

namespace {

tt::LlamaConfig small() {
  return {.vocabulary = 19,
          .context = 16,
          .features = 15,
          .layers = 2,
          .heads = 3,
          .head_size = 6,
          .hidden = 20,
          .deviation = 0.2};
}

}  // namespace

TEST_CASE("Llama passes the cases of every decoder: heads, grouped heads, biases, tied" *
          test::long_on_emulator()) {
  std::vector<tt::LlamaConfig> configs(3, small());
  configs[1].groups = 1, configs[1].tied = true;
  configs[2].attention_bias = configs[2].mlp_bias = true;
  configs[2].rotary = {.theta = 300, .scaling = tt::Llama3Scaling{2, 1, 4, 8}};
  for (const tt::LlamaConfig& config : configs) {
    CAPTURE(config.groups);
    tt::manual_seed(1);
    tt::Llama model(config);
    model_cases::check_causality(model);
    model_cases::check_batch_rows(model);
    model_cases::check_cache(model, 2);
    model_cases::check_learning(model);
    model_cases::check_gradients(model);
  }
}

TEST_CASE("tied weights are one parameter; biases exist where the options request them") {
  tt::LlamaConfig config = small();
  const int64_t plain = tt::Llama(config).parameter_count();
  config.tied = true;
  CHECK(tt::Llama(config).parameter_count() == plain - 19 * 15);
  config.attention_bias = true;
  const int64_t with_bias = tt::Llama(config).parameter_count();
  CHECK(with_bias == plain - 19 * 15 + 2 * (3 * 18 + 15));
  config.mlp_bias = true;
  CHECK(tt::Llama(config).parameter_count() == with_bias + 2 * (2 * 20 + 15));
}

TEST_CASE("groups make keys and values smaller; odd head sizes throw") {
  tt::LlamaConfig config = small();
  config.heads = 6, config.groups = 2, config.head_size = 4;
  CHECK(tt::Llama(config).blocks[0].attention.qkv.weight.shape() == tt::Shape{(6 + 4) * 4, 15});
  config.head_size = 5;
  CHECK(message_of([&] { tt::Llama model(config); }).starts_with("TT-NN-21"));
}

TEST_CASE("in bf16 the logits are close to those of f32") {
  tt::manual_seed(2);
  tt::Llama model(small());
  model.eval();
  const tt::Tensor tokens = model_cases::tokens_of(model, 2, 12), expected = model(tokens);
  model.to(tt::bf16);
  const tt::Tensor got = model(tokens);
  CHECK(got.dtype() == tt::bf16);
  CHECK(tt::max(tt::abs(got.to(tt::f32) - expected)).item() < 0.1);
}
