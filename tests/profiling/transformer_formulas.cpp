// Closed forms against models: parameters exactly, FLOPs and memory as the profiler measures them.
#include <doctest/doctest.h>

#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/profiling/cost.hpp>
#include <tinytorch/profiling/memory.hpp>
#include <tinytorch/profiling/transformer_formulas.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/gpt2.hpp>

namespace tt = tinytorch;
using namespace tinytorch::profiling;

namespace {

TransformerSize size_of(const tt::Gpt2Config& c) {
  return {static_cast<double>(c.vocabulary), static_cast<double>(c.context), static_cast<double>(c.features),
          static_cast<double>(c.layers), static_cast<double>(c.heads)};
}

tt::Gpt2Config config_of(int64_t vocabulary, int64_t context, int64_t features, int64_t layers,
                         int64_t heads) {
  tt::Gpt2Config c;
  c.vocabulary = vocabulary, c.context = context, c.features = features, c.layers = layers, c.heads = heads;
  c.embedding_dropout = c.attention_dropout = c.residual_dropout = 0;
  return c;
}

tt::Tensor tokens(int64_t B, int64_t T, int64_t vocabulary) { return tt::randint(0, vocabulary, {B, T}); }

int64_t bytes_in_use() { return static_cast<int64_t>(tt::allocator_stats().current); }

}  // namespace

TEST_CASE("parameters: the formula is the model, and GPT-2 small has 124 million") {
  for (const auto& c :
       {config_of(97, 33, 48, 3, 4), config_of(11, 5, 8, 1, 2), config_of(50, 20, 64, 2, 8)}) {
    const tt::Gpt2 model(c);
    CHECK(static_cast<double>(model.parameter_count()) == parameter_count(size_of(c)));
  }
  CHECK(parameter_count(size_of(tt::Gpt2Config{})) == 124439808);
}

TEST_CASE("FLOPs of a step: the products and attention of the formula, and a little between them") {
  const tt::Gpt2Config c = config_of(503, 64, 128, 3, 4);
  tt::Gpt2 model(c);
  const int64_t B = 2, T = 48;
  const tt::Tensor x = tokens(B, T, c.vocabulary), y = tokens(B, T, c.vocabulary);
  Profiler profiler(model);
  model.loss(x, y).backward();
  const Profile profile = profiler.finish();
  const double expected = training_flops(size_of(c), B, T), counted = profile.cost().flops;
  CHECK(counted >= expected);
  CHECK(counted <= 1.06 * expected);
  // Only products and attention: nothing is missing, nothing twice.
  double products = 0, attention = 0;
  for (const OpRecord& op : profile.ops) {
    if (op.parent >= 0) continue;
    if (op.name.find("attention") != std::string::npos) attention += op.cost.flops;
    if (op.name.find("matmul") != std::string::npos || op.name.find("linear") != std::string::npos ||
        op.name.find("mlp") != std::string::npos)
      products += op.cost.flops;
  }
  CHECK(attention == doctest::Approx(3.5 * attention_flops(size_of(c), B, T)));
  CHECK(products >= 3 * product_flops(size_of(c), B, T));
  CHECK(products <= 1.05 * 3 * product_flops(size_of(c), B, T));
}

TEST_CASE("six FLOPs per parameter and token, when products are most of the work") {
  const tt::Gpt2Config c = config_of(256, 16, 256, 2, 4);
  const TransformerSize s = size_of(c);
  const double tokens_seen = 4 * 16, with_products = parameter_count(s) - s.context * s.features;
  CHECK(training_flops(s, 4, 16) / (6 * with_products * tokens_seen) == doctest::Approx(1).epsilon(0.05));
}

TEST_CASE("activations: what a block keeps is what the formula says") {
  const int64_t B = 3, T = 40;
  const auto kept_by = [&](int64_t layers, tt::DType dtype) {
    const tt::Gpt2Config c = config_of(64, 64, 96, layers, 6);
    tt::Gpt2 model(c);
    model.to(dtype);
    const tt::Tensor x = tokens(B, T, c.vocabulary);
    const int64_t before = bytes_in_use();
    const tt::Tensor features = model.features(x);
    return static_cast<double>(bytes_in_use() - before);
  };
  for (const tt::DType dtype : {tt::f32, tt::bf16}) {
    const TransformerSize s = size_of(config_of(64, 64, 96, 1, 6));
    const ActivationsPerToken per_token = block_activations(s);
    const double value_bytes = dtype == tt::f32 ? 4 : 2;
    const double expected = B * T * (per_token.values * value_bytes + per_token.floats * 4);
    const double measured = (kept_by(5, dtype) - kept_by(2, dtype)) / 3;
    CAPTURE(value_bytes);
    CHECK(measured == doctest::Approx(expected).epsilon(0.01));
    // Without the matrix of probabilities, and without masks of dropout, less than the literature's formula.
    if (dtype == tt::bf16) CHECK(measured < literature_layer_bytes(s, B, T));
  }
}

TEST_CASE("FLOPs of a residual network: 2 N OH OW M C KH KW a convolution, three times that to train") {
  struct Block : tt::Module {
    tt::Conv2d first, second;
    tt::BatchNorm2d norm_first, norm_second;
    Block(int64_t in, int64_t out, int64_t stride)
        : first(in, out, 3, {.stride = stride, .padding = 1}, false),
          second(out, out, 3, {.padding = 1}, false),
          norm_first(out),
          norm_second(out) {
      add("first", first), add("second", second), add("norm_first", norm_first),
          add("norm_second", norm_second);
    }
    tt::Tensor forward(const tt::Tensor& x) override {
      const tt::Tensor y = norm_second(second(tt::relu(norm_first(first(x)))));
      return tt::relu(x.shape() == y.shape() ? y + x : y);
    }
  };
  Block plain(16, 16, 1), strided(16, 32, 2);
  tt::Tensor x = tt::randn({2, 16, 12, 12});
  x.requires_grad_();
  tt::Tensor y;
  const double expected = 2.0 * 2 * 9 * (144 * 16 * 16 * 2 + 36 * (16 * 32 + 32 * 32));
  const double forward = count_cost([&] { y = strided(plain(x)); }).flops;
  CHECK(forward >= expected);
  CHECK(forward <= 1.04 * expected);
  const double backward = count_cost([&] { tt::sum(y).backward(); }).flops;
  CHECK(backward >= 2 * expected);
  CHECK(backward <= 2.08 * expected);
}

TEST_CASE("the peak that the memory profiler reports is the allocator's, for a whole step") {
  const tt::Gpt2Config c = config_of(64, 32, 32, 2, 2);
  tt::Gpt2 model(c);
  const tt::Tensor x = tokens(2, 32, 64), y = tokens(2, 32, 64);
  tt::reset_peak();
  Profiler profiler(model);
  MemoryProfiler memory(profiler);
  model.loss(x, y).backward();
  profiler.finish();
  CHECK(memory.finish(tt::cpu).peak == static_cast<int64_t>(tt::allocator_stats().peak));
}
