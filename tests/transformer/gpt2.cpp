#include <tinytorch/transformer/gpt2.hpp>

#include <support/errors.hpp>
#include <support/few.hpp>

#include <transformer/model_cases.hpp>

namespace tt = tinytorch;

namespace {

tt::Gpt2Config small() {
  return {.vocabulary = 19,
          .context = 8,
          .features = 15,
          .layers = 2,
          .heads = 3,
          .embedding_dropout = 0,
          .attention_dropout = 0,
          .residual_dropout = 0,
          .deviation = 0.2};
}

}  // namespace

TEST_CASE("GPT-2 passes the cases of every decoder, with odd numbers and sizes of heads, tied or not" *
          test::long_on_emulator()) {
  for (const bool tied : {true, false}) {
    CAPTURE(tied);
    tt::manual_seed(1);
    tt::Gpt2Config config = small();
    config.tied = tied;
    tt::Gpt2 model(config);
    model_cases::check_causality(model);
    model_cases::check_batch_rows(model);
    model_cases::check_gradients(model);
    model_cases::check_cache(model, 2);
    model_cases::check_learning(model);
  }
}

TEST_CASE("tied weights are one parameter, whose gradient sums both uses") {
  tt::manual_seed(2);
  tt::Gpt2 tied(small());
  tt::Gpt2Config config = small();
  config.tied = false;
  tt::Gpt2 untied(config);
  CHECK(untied.parameter_count() == tied.parameter_count() + 19 * 15);
  CHECK(untied.named_parameters().size() == tied.named_parameters().size() + 1);
  tt::StateDict state = tied.state_dict();
  state["head.weight"] = tied.token_embedding.weight.detach();
  untied.load_state_dict(state);
  const tt::Tensor tokens = model_cases::tokens_of(tied, 2, 5);
  tied.loss(tokens, tokens).backward(), untied.loss(tokens, tokens).backward();
  const tt::Tensor both = untied.token_embedding.weight.grad() + untied.own_head->weight.grad();
  check_values(tied.token_embedding.weight.grad().to_vector<double>(), both.to_vector<double>(), 1e-5);
}

TEST_CASE("the parameter count is 12 L C^2 plus smaller terms; GPT-2 small has 124439808") {
  const auto count = [](const tt::Gpt2Config& c) {
    const int64_t C = c.features;
    return (c.vocabulary + c.context) * C + c.layers * (12 * C * C + 13 * C) + 2 * C;
  };
  CHECK(tt::Gpt2(small()).parameter_count() == count(small()));
  CHECK(count({}) == 124439808);
}

TEST_CASE("dropout is applied in three places, in training only") {
  for (int place = 0; place < 3; ++place) {
    tt::manual_seed(3);
    tt::Gpt2Config config = small();
    (place == 0   ? config.embedding_dropout
     : place == 1 ? config.attention_dropout
                  : config.residual_dropout) = 0.5;
    tt::Gpt2 model(config);
    const tt::Tensor tokens = model_cases::tokens_of(model, 2, 5);
    CHECK(model(tokens).to_vector() != model(tokens).to_vector());
    model.eval();
    CHECK(model(tokens).to_vector() == model(tokens).to_vector());
  }
}

TEST_CASE(
    "initialization: deviation 0.02, last matrices of branches over sqrt(2 L), norms 1 and 0; by the seed "
    "alone") {
  tt::Gpt2Config config{.vocabulary = 100, .context = 16, .features = 96, .layers = 8, .heads = 4};
  tt::manual_seed(4);
  tt::Gpt2 model(config);
  const auto deviation = [](const tt::Tensor& t) { return tt::stddev(t.detach()).item<double>(); };
  CHECK(deviation(model.token_embedding.weight) == doctest::Approx(0.02).epsilon(0.05));
  CHECK(deviation(model.blocks[3].attention.qkv.weight) == doctest::Approx(0.02).epsilon(0.05));
  CHECK(deviation(model.blocks[3].mlp.down.weight) == doctest::Approx(0.005).epsilon(0.05));
  CHECK(deviation(model.blocks[7].attention.projection.weight) == doctest::Approx(0.005).epsilon(0.05));
  CHECK(tt::min(model.final_norm.weight).item() == 1);
  CHECK(tt::max(tt::abs(model.blocks[0].attention.qkv.bias)).item() == 0);
  tt::manual_seed(4);
  CHECK(tt::Gpt2(config).token_embedding.weight.to_vector() == model.token_embedding.weight.to_vector());
}

TEST_CASE("more tokens than positions throw") {
  tt::Gpt2 model(small());
  CHECK(model.context() == 8);
  CHECK(message_of([&] {
          model(model_cases::tokens_of(model, 1, 9));
        }).starts_with("TT-NN-20: positions 0 to 8"));
}
