#include <tinytorch/transformer/language_model.hpp>

#include <support/errors.hpp>
#include <support/values.hpp>
#include <tinytorch/layers/embedding.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

// A minimal model: features are embeddings, and the head is the same table.
class Bigram : public tt::LanguageModel {
 public:
  Bigram(int64_t V, int64_t C) : table(V, C) { add("table", table); }
  int64_t vocabulary() const override { return table.weight.size(0); }
  int64_t context() const override { return 8; }
  tt::Tensor features(const tt::Tensor& tokens, tt::AttentionCache*) override {
    require_tokens(tokens);
    return table(tokens);
  }
  tt::Tensor head(const tt::Tensor& x) override { return tt::linear(x, table.weight); }
  tt::Tensor head_weight() const override { return known_head ? table.weight : tt::Tensor(); }
  tt::Embedding table;
  bool known_head = true;
};

struct Names : tt::Module {
  tt::Linear qkv{200, 100}, projection{200, 100}, up{200, 100}, down{200, 100};
  struct Part : tt::Module {};
  Part attention, mlp;
  Names() {
    add("attention", attention), add("mlp", mlp);
    attention.add("qkv", qkv), attention.add("projection", projection);
    mlp.add("up", up), mlp.add("down", down);
  }
};

double deviation_of(const tt::Tensor& t) { return tt::stddev(t.detach()).item<double>(); }

}  // namespace

TEST_CASE(
    "forward is the head of the features; the loss is the mean of -log p over targets other than -100") {
  tt::manual_seed(1);
  Bigram model(7, 3);
  const tt::Tensor tokens = tt::from_data<int64_t>({0, 1, 2, 6, 5, 4}, {2, 3});
  const tt::Tensor targets = tt::from_data<int64_t>({1, 2, -100, 5, 4, 0}, {2, 3});
  const tt::Tensor logits = model(tokens);
  CHECK(logits.shape() == tt::Shape{2, 3, 7});
  const std::vector<double> p = tt::softmax(logits).to_vector<double>();
  double expected = 0;
  const std::vector<int64_t> wanted = targets.to_vector<int64_t>();
  for (size_t i = 0; i < 6; ++i)
    if (wanted[i] >= 0) expected -= std::log(p[i * 7 + static_cast<size_t>(wanted[i])]) / 5;
  for (const bool known : {true, false}) {  // by linear_cross_entropy, or by the logits
    model.known_head = known;
    CHECK(model.loss(tokens, targets).item<double>() == doctest::Approx(expected).epsilon(1e-5));
  }
}

TEST_CASE("with a head_weight the gradients are the same without stored logits; the loss of bf16 is f32") {
  tt::manual_seed(1);
  Bigram model(7, 3);
  const tt::Tensor tokens = tt::from_data<int64_t>({0, 1, 2, 6, 5, 4}, {2, 3});
  const tt::Tensor targets = tt::from_data<int64_t>({1, 2, -100, 5, 4, 0}, {2, 3});
  std::vector<std::vector<double>> gradients;
  for (const bool known : {true, false}) {
    model.known_head = known;
    model.zero_grad();
    model.loss(tokens, targets).backward();
    gradients.push_back(model.table.weight.grad().to_vector<double>());
  }
  check_values(gradients[0], gradients[1], 1e-6);
  model.known_head = true;
  model.to(tt::bf16);
  CHECK(model.loss(tokens, targets).dtype() == tt::f32);
}

TEST_CASE("inputs that are not tokens i64 [B, T] throw") {
  Bigram model(7, 3);
  for (const tt::Tensor& bad : {tt::zeros({2, 3}), tt::zeros({3}, tt::i64), tt::zeros({2, 0}, tt::i64)})
    CHECK(message_of([&] { model(bad); }).starts_with("TT-NN-23: a language model takes tokens i64 [B, T]"));
  const tt::Tensor tokens = tt::zeros({2, 3}, tt::i64), targets = tt::zeros({3, 2}, tt::i64);
  CHECK(message_of([&] { model.loss(tokens, targets); }).starts_with("TT-SHAPE-02: loss"));
}

TEST_CASE("initialization: one deviation, a smaller one for the last matrix of each branch, biases zero") {
  tt::manual_seed(2);
  Names model;
  tt::initialize_transformer(model, 0.02, 16);
  CHECK(deviation_of(model.qkv.weight) == doctest::Approx(0.02).epsilon(0.03));
  CHECK(deviation_of(model.up.weight) == doctest::Approx(0.02).epsilon(0.03));
  CHECK(deviation_of(model.projection.weight) == doctest::Approx(0.005).epsilon(0.03));
  CHECK(deviation_of(model.down.weight) == doctest::Approx(0.005).epsilon(0.03));
  CHECK(tt::max(tt::abs(model.down.bias)).item() == 0);
}
