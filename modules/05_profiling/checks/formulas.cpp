#include <support/check.hpp>
#include <tinytorch/profiling/transformer_formulas.hpp>
#include <tinytorch/transformer/gpt2.hpp>

using namespace course;
using namespace profiling;

namespace {

// Observes the work of the ops of a model: attention, and ops with matrix products.
struct Work final : OpObserver {
  double attention = 0, products = 0;
  int depth = 0;
  void before(const PrimitiveBase&, const Tensors&) override { ++depth; }
  void after(const PrimitiveBase& op, const Tensors&, const Tensors&, Cost cost) override {
    if (--depth > 0) return;
    const std::string name = op.name();
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (has("attention"))
      attention += cost.flops;
    else if (has("matmul") || has("linear") || has("mlp"))
      products += cost.flops;
  }
  void failed(const PrimitiveBase&) override { --depth; }
};

Gpt2Config config_of(int64_t V, int64_t context, int64_t C, int64_t L, int64_t H) {
  return {.vocabulary = V,
          .context = context,
          .features = C,
          .layers = L,
          .heads = H,
          .embedding_dropout = 0,
          .attention_dropout = 0,
          .residual_dropout = 0};
}
TransformerSize size_of(const Gpt2Config& c) {
  const auto d = [](int64_t n) { return static_cast<double>(n); };
  return {d(c.vocabulary), d(c.context), d(c.features), d(c.layers), d(c.heads)};
}
std::string name_of_size(const Gpt2Config& c) {
  const auto n = [](int64_t x) { return std::to_string(x); };
  return "V " + n(c.vocabulary) + ", context " + n(c.context) + ", C " + n(c.features) + ", L " +
         n(c.layers) + ", H " + n(c.heads);
}
Tensor tokens(int64_t B, int64_t T, int64_t V) { return randint(0, V, {B, T}); }

void expect_value(const std::string& what, double got, double want, const std::string& guess = "") {
  expect(what + ": " + shown(want) + ", got " + shown(got), std::abs(got - want) <= 1e-12 * std::abs(want),
         guess);
}
// Expects that the counted work is that of the formula, or up to `most` times as much, because biases and
// activations of linear layers add a little to the products.
void expect_a_little_more(const std::string& what, double formula, double counted, double most) {
  const double ratio = counted / formula;
  expect(what + ": the model's ops state " + shown(counted) + " FLOPs, the formula says " + shown(formula) +
             "; they must state those of the formula, or up to " + shown(100 * (most - 1)) + " % more",
         ratio >= 1 - 1e-12 && ratio <= most, "the model states " + shown(ratio) + " times as many");
}

}  // namespace

TEST_CASE("5.8 the parameter count of a model") {
  for (const Gpt2Config& c :
       {config_of(97, 33, 48, 3, 4), config_of(11, 5, 8, 1, 2), config_of(50, 20, 16, 2, 8)}) {
    const Gpt2 model(c);
    const double got = parameter_count(size_of(c)), want = static_cast<double>(model.parameter_count());
    const auto C = static_cast<double>(c.features), V = static_cast<double>(c.vocabulary);
    expect_value("parameters of a model with " + name_of_size(c), got, want,
                 got - want == V * C
                     ? "the head shares the weight of the embedding, so it is not another parameter"
                 : want - got == 2 * C ? "the last norm is missing"
                 : got < want && want - got < 14 * C * static_cast<double>(c.layers)
                     ? "biases, and weight and bias of norms, are parameters, too"
                     : "the difference is " + shown(got - want));
  }
  expect_value("parameters of GPT-2 small", parameter_count({50257, 1024, 768, 12, 12}), 124439808);
  expect_value("the number of heads does not change the number of parameters",
               parameter_count({50257, 1024, 768, 12, 3}), 124439808);
}

TEST_CASE("5.8 the matrix products of a forward pass") {
  expect_value("C = 1, L = 1, no vocabulary: 12 weights, 2 FLOPs each, for one token",
               product_flops({0, 8, 1, 1, 1}, 1, 1), 24);
  expect_value("the head alone, of V = 7, C = 5: 2 V C", product_flops({7, 8, 5, 0, 1}, 1, 1), 70);
  expect_value("the head alone, B = 3, T = 4: 12 tokens", product_flops({7, 8, 5, 0, 1}, 3, 4), 840);
  expect_value("GPT-2 small, 1 x 1024 tokens", product_flops({50257, 1024, 768, 12, 12}, 1, 1024),
               2.0 * 1024 * (12 * 12 * 768.0 * 768 + 50257.0 * 768),
               "2 B T times the weights of the linear layers");
}

TEST_CASE("5.8 causal attention: each query sees itself and earlier keys") {
  expect_value("attention of one token, C = 8: 8 products for the score and 8 for the value",
               attention_flops({0, 8, 8, 1, 2}, 1, 1), 32);
  expect_value("attention of two tokens: three pairs", attention_flops({0, 8, 8, 1, 2}, 1, 2), 96,
               "the pair with the later key is not computed");
  expect_value("attention, L = 3, B = 5, T = 7: 3 x 5 x 28 pairs", attention_flops({0, 8, 8, 3, 2}, 5, 7),
               3 * 5 * 28 * 32.0);
  expect_value("attention with 8 heads instead of 2: the same work", attention_flops({0, 8, 8, 3, 8}, 5, 7),
               3 * 5 * 28 * 32.0, "H heads of C / H numbers each");
}

TEST_CASE("5.8 the forward pass of a model") {
  const Gpt2Config c = config_of(131, 32, 64, 2, 4);
  Gpt2 model(c);
  const Tensor x = tokens(2, 24, c.vocabulary);
  Work work;
  {
    const NoGrad guard;
    const Observing observing(work);
    model(x);
  }
  expect_value("FLOPs of the ops of attention, " + name_of_size(c) + ", B 2, T 24",
               attention_flops(size_of(c), 2, 24), work.attention);
  expect_a_little_more("products of the same model", product_flops(size_of(c), 2, 24), work.products, 1.12);
}

TEST_CASE("5.8 a training step of a model") {
  const Gpt2Config c = config_of(131, 32, 64, 2, 4);
  Gpt2 model(c);
  const Tensor x = tokens(2, 24, c.vocabulary), y = tokens(2, 24, c.vocabulary);
  Work work;
  {
    const Observing observing(work);
    model.loss(x, y).backward();
  }
  const TransformerSize s = size_of(c);
  expect_a_little_more("attention and products, forward and backward", training_flops(s, 2, 24),
                       work.attention + work.products, 1.12);
  const double ratio = (training_flops(s, 2, 24) - 3 * product_flops(s, 2, 24)) / attention_flops(s, 2, 24);
  expect(
      "training takes 3.5 times the forward pass of attention, because it has 2 products forward and 5 "
      "backward; got " +
          shown(ratio),
      std::abs(ratio - 3.5) < 1e-9);
  const TransformerSize wide{256, 16, 256, 2, 4};
  const double per_token = training_flops(wide, 4, 16) / (4 * 16 * (parameter_count(wide) - 16 * 256));
  expect("about six FLOPs per parameter and token, if products are most of the work; got " + shown(per_token),
         std::abs(per_token - 6) < 0.3);
}

TEST_CASE("5.8 the activations that a block keeps for its backward pass") {
  const int64_t B = 2, T = 20;
  const auto kept = [&](int64_t layers, DType dtype) {
    Gpt2 model(config_of(32, 32, 48, layers, 6));
    model.to(dtype);
    const Tensor x = tokens(B, T, 32);
    const auto before = static_cast<int64_t>(allocator_stats().current);
    const Tensor features = model.features(x);
    return static_cast<double>(static_cast<int64_t>(allocator_stats().current) - before);
  };
  const ActivationsPerToken a = block_activations({32, 32, 48, 2, 6});
  for (const DType dtype : {f32, bf16}) {
    const double measured = (kept(3, dtype) - kept(1, dtype)) / 2 / (B * T);
    const double formula = a.values * (dtype == f32 ? 4 : 2) + a.floats * 4;
    expect("bytes that a block with C = 48, H = 6 in " + std::string(name_of(dtype)) +
               " keeps for each token, measured: " + shown(measured) + "; by the formula " + shown(formula),
           std::abs(formula / measured - 1) < 0.01);
  }
  expect_value("statistics in f32, for each token, of H = 6 heads and two norms", a.floats, 10);
}
