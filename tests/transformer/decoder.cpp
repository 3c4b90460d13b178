#include <tinytorch/transformer/decoder.hpp>

#include <support/errors.hpp>
#include <support/few.hpp>

#include <transformer/model_cases.hpp>

namespace tt = tinytorch;

TEST_CASE("a Decoder without options computes what a Llama computes") {
  tt::DecoderConfig config;
  static_cast<tt::LlamaConfig&>(config) = {.vocabulary = 19,
                                           .context = 16,
                                           .features = 12,
                                           .layers = 2,
                                           .heads = 3,
                                           .groups = 1,
                                           .head_size = 6,
                                           .hidden = 20,
                                           .attention_bias = true,
                                           .mlp_bias = true,
                                           .deviation = 0.2};
  tt::Llama llama(config);
  tt::Decoder decoder(config);
  decoder.load_state_dict(llama.state_dict());
  const tt::Tensor tokens = tt::randint(0, 19, {2, 9}, tt::i64, tt::default_device());
  CHECK(decoder(tokens).to_vector() == llama(tokens).to_vector());
  CHECK(decoder.loss(tokens, tokens).item<double>() == llama.loss(tokens, tokens).item<double>());
}

TEST_CASE("a Decoder with all options passes the cases of every decoder" * test::long_on_emulator()) {
  tt::DecoderConfig config;
  static_cast<tt::LlamaConfig&>(config) = {
      .vocabulary = 19, .context = 16, .features = 15, .layers = 2, .heads = 3, .head_size = 6, .hidden = 20};
  config.deviation = 0.2, config.qkv_bias = true, config.window = 9, config.sliding = {true, false};
  config.sliding_rotary = tt::RotaryOptions{.theta = 50};
  config.head_norms = config.post_norms = true, config.norm_offset = 1, config.attention_scale = 0.3;
  config.logit_cap = 3, config.embedding_scale = 2, config.activation = tt::Activation::gelu_tanh;
  for (const double cap : {0.0, 2.0}) {
    config.attention_cap = cap;
    tt::manual_seed(1);
    tt::Decoder model(config);
    model_cases::check_causality(model);
    model_cases::check_batch_rows(model);
    model_cases::check_cache(model, 2);
    model_cases::check_learning(model);
    model_cases::check_gradients(model);
  }
  config.sliding = {true};
  CHECK(message_of([&] { tt::Decoder model(config); }).starts_with("TT-NN-22"));
}
