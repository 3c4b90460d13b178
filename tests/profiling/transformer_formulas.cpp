// Closed forms are compared with models: parameters and FLOPs exactly, memory as the profiler measures it.
#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/profiling/cost.hpp>
#include <tinytorch/profiling/memory.hpp>
#include <tinytorch/profiling/transformer_formulas.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tuple>

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

// The FLOPs of all calls of an op in one pass, by a name such as "matmul (back)", without ops that have none.
using FlopsByOp = std::map<std::string, double>;

FlopsByOp flops_by_op(const Profile& profile) {
  FlopsByOp out;
  for (const ProfileRow& row : by_op(profile))
    if (row.cost.flops > 0) out[row.name + (row.backward ? " (back)" : "")] = row.cost.flops;
  return out;
}

double sum_of(const FlopsByOp& ops) {
  double sum = 0;
  for (const auto& [name, flops] : ops) sum += flops;
  return sum;
}

// The FLOPs of a training step of GPT-2 on B sequences of T tokens. A product counts 2 per multiplication.
// Other ops count what their primitives state per element: layer norm 8 forward and 13 backward, with a
// residual sum 9 and 14; GELU by tanh 20 and 20; softmax in cross-entropy 13 and 13; scaling a gradient or
// adding it to another 1.
FlopsByOp gpt2_flops(const TransformerSize& s, double B, double T) {
  const double N = B * T, C = s.features, L = s.layers, V = s.vocabulary, F = 4 * C, gelu = 20;
  const double pairs = L * B * T * (T + 1) / 2;  // unmasked pairs of a query and a key, over all heads
  return {
      {"add", N * C          // token and position embeddings
                  + N * C    // backward: both paths into the first block,
                  + V * C},  // and both uses of the embedding
      {"layer_norm", 8 * N * C},
      {"linear", L * 2 * N * C * (3 * C + C)},  // QKV; projection
      {"joined_attention", 2 * 2 * pairs * C},
      {"residual_layer_norm", 2 * L * 9 * N * C},
      {"mlp", L * N * F * (2 * C + gelu + 2 * C)},
      // Both gradients are computed with the loss.
      {"linear_cross_entropy", 3 * 2 * N * C * V + 2 * 13 * N * V},
      // The number of targets that are not ignored: a comparison and an addition for each, then four ops on
      // one number.
      {"ne", N},
      {"sum", N},
      {"maximum", 1},
      {"div", 1},
      {"gt", 1},
      {"where", 1},
      {"where (back)", 2},
      {"div (back)", 1},
      {"mul (back)", N * C + V * C},  // the loss's gradient is 1 / targets
      {"residual_norm_grad (back)", 2 * L * 14 * N * C},
      // Gradients of weights: those of the MLP's second layer, of the projection, and of QKV.
      {"linear_grad_weight (back)", L * 2 * N * (F * C + C * C + 3 * C * C)},
      {"linear_grad_activation (back)", L * N * F * (2 * C + gelu)},
      // Gradients of inputs of those layers, except the MLP's second; and both gradients of its first.
      {"matmul (back)", L * 2 * N * (2 * F * C + C * C + 3 * C * C)},
      {"joined_attention_grad (back)", 5 * 2 * pairs * C},
      {"layer_norm_grad (back)", 13 * N * C},
      {"sum (back)", N * C},  // position embedding: sum over the sequences
      {"embedding_grad (back)", N * C},
  };
}

// Residual blocks of two convolutions. Where the width changes, the shortcut is a 1 x 1 convolution.
struct Block : tt::Module {
  tt::Conv2d first, second;
  tt::BatchNorm2d norm_first, norm_second;
  std::optional<tt::Conv2d> shortcut;
  Block(int64_t in, int64_t out, int64_t stride)
      : first(in, out, 3, {.stride = stride, .padding = 1}, false),
        second(out, out, 3, {.padding = 1}, false),
        norm_first(out),
        norm_second(out) {
    add("first", first), add("second", second);
    add("norm_first", norm_first), add("norm_second", norm_second);
    if (in != out) {
      shortcut.emplace(in, out, 1, tt::Conv2dOptions{.stride = stride}, false);
      add("shortcut", *shortcut);
    }
  }
  tt::Tensor forward(const tt::Tensor& x) override {
    const tt::Tensor y = norm_second(second(tt::relu(norm_first(first(x)))));
    return tt::relu(y + (shortcut ? (*shortcut)(x) : x));
  }
};

// He et al., "Deep residual learning", 2016, in the size of MLPerf Tiny's image classification: 32 x 32 x 3.
struct ResNet8 : tt::Module {
  tt::Conv2d stem{3, 16, 3, {.padding = 1}, false};
  tt::BatchNorm2d norm{16};
  Block one{16, 16, 1}, two{16, 32, 2}, three{32, 64, 2};
  tt::Linear head{64, 10};
  ResNet8() {
    add("stem", stem), add("norm", norm);
    add("one", one), add("two", two), add("three", three), add("head", head);
  }
  tt::Tensor forward(const tt::Tensor& x) override {
    const tt::Tensor y = three(two(one(tt::relu(norm(stem(x))))));
    return head(tt::adaptive_avg_pool2d(y, 1, 1).flatten(1));
  }
};

// The FLOPs of a training step on N images. A convolution counts 2 N OH OW M C KH KW, and as many for each
// gradient; the input of the stem has no gradient. Elementwise work per element: batch norm 7 forward and 10
// backward, relu 1 and 1, pooling 1 and 1, a sum 1.
FlopsByOp resnet8_flops(double N) {
  const double large = N * 32 * 32, middle = N * 16 * 16, small = N * 8 * 8;  // positions
  const double stem = 2 * large * 16 * 3 * 9, one = 2 * large * 16 * 16 * 9 * 2,
               two = 2 * middle * 32 * (16 * 9 + 32 * 9 + 16),
               three = 2 * small * 64 * (32 * 9 + 64 * 9 + 32);
  // Batch norm and relu follow the stem and the two convolutions of each block.
  const double maps = large * 16 * 3 + middle * 32 * 2 + small * 64 * 2;
  const double head = 2 * N * 64 * 10;
  return {
      {"conv2d", stem + one + two + three},
      {"conv2d_grad_weight (back)", stem + one + two + three},
      {"conv2d_grad_input (back)", one + two + three},
      {"batch_norm_train", 7 * maps},
      {"batch_norm_grad (back)", 10 * maps},
      {"mul", 2 * (16 * 3 + 32 * 2 + 64 * 2)},  // running means and variances
      {"relu", maps},
      {"relu_grad (back)", maps},
      {"add", large * 16 + middle * 32 + small * 64  // the two paths of each block are added,
                  + 2 * large * 16 + middle * 32},   // and the two gradients of its input
      {"adaptive_avg_pool2d", small * 64},
      {"adaptive_avg_pool2d_grad (back)", small * 64},
      {"linear", head},
      {"matmul (back)", head},
      {"linear_grad_weight (back)", head},
      {"cross_entropy", 13 * N * 10},
      {"cross_entropy_grad (back)", 13 * N * 10},
  };
}

}  // namespace

TEST_CASE("parameter_count equals the model's count; GPT-2 small has 124 million") {
  for (const auto& c :
       {config_of(97, 33, 48, 3, 4), config_of(11, 5, 8, 1, 2), config_of(50, 20, 64, 2, 8)}) {
    const tt::Gpt2 model(c);
    CHECK(static_cast<double>(model.parameter_count()) == parameter_count(size_of(c)));
  }
  CHECK(parameter_count(size_of(tt::Gpt2Config{})) == 124439808);
}

TEST_CASE("FLOPs of a step of GPT-2: each op matches its closed form exactly, and no other op counts") {
  for (const auto& [B, T, c] : {std::tuple{2, 48, config_of(503, 64, 128, 3, 4)},
                                {3, 7, config_of(61, 16, 24, 1, 2)},
                                {1, 33, config_of(130, 33, 40, 2, 5)}}) {
    tt::Gpt2 model(c);
    const tt::Tensor x = tokens(B, T, c.vocabulary), y = tokens(B, T, c.vocabulary);
    Profiler profiler(model);
    model.loss(x, y).backward();
    const Profile profile = profiler.finish();
    CHECK(flops_by_op(profile) == gpt2_flops(size_of(c), B, T));
    CHECK(profile.cost().flops == sum_of(gpt2_flops(size_of(c), B, T)));
  }
}

TEST_CASE("product_flops and attention_flops are the terms of the closed form, and most of its sum") {
  const TransformerSize s = size_of(config_of(503, 64, 128, 3, 4));
  const double B = 2, T = 48, tokens_seen = B * T, F = 4 * s.features;
  const auto ops = gpt2_flops(s, B, T);
  const double activations = 2 * 20 * s.layers * tokens_seen * F;  // counted by the fused ops of the MLP
  double products = -activations - 26 * tokens_seen * s.vocabulary;
  for (const char* name : {"linear", "mlp", "linear_cross_entropy", "linear_grad_weight (back)",
                           "linear_grad_activation (back)", "matmul (back)"})
    products += ops.at(name);
  CHECK(products == 3 * product_flops(s, B, T));
  CHECK(ops.at("joined_attention") == attention_flops(s, B, T));
  CHECK(ops.at("joined_attention_grad (back)") == 2.5 * attention_flops(s, B, T));
  CHECK(training_flops(s, B, T) > 0.94 * sum_of(ops));
}

TEST_CASE("training takes six FLOPs per parameter and token if products are most of the work") {
  const tt::Gpt2Config c = config_of(256, 16, 256, 2, 4);
  const TransformerSize s = size_of(c);
  const double tokens_seen = 4 * 16, with_products = parameter_count(s) - s.context * s.features;
  CHECK(training_flops(s, 4, 16) / (6 * with_products * tokens_seen) == doctest::Approx(1).epsilon(0.05));
}

TEST_CASE("block_activations equals the memory that a block keeps") {
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
    // The memory is less than the literature's formula, because the matrix of probabilities and dropout masks
    // are not kept.
    if (dtype == tt::bf16) CHECK(measured < literature_layer_bytes(s, B, T));
  }
}

TEST_CASE("FLOPs of ResNet-8, forward and backward: each op matches its closed form exactly") {
  ResNet8 model;
  const int64_t N = 3;
  const tt::Tensor x = tt::randn({N, 3, 32, 32}), y = tt::randint(0, 10, {N});
  Profiler profiler(model);
  tt::cross_entropy(model(x), y).backward();
  const Profile profile = profiler.finish();
  CHECK(flops_by_op(profile) == resnet8_flops(static_cast<double>(N)));
  CHECK(profile.cost().flops == sum_of(resnet8_flops(static_cast<double>(N))));
}

TEST_CASE("ResNet-8 has the 12.5 million multiplications of MLPerf Tiny, which are most of its work") {
  const auto ops = resnet8_flops(1);
  CHECK(ops.at("conv2d") + ops.at("linear") == 2 * 12'501'632.0);
  CHECK(3 * 2 * 12'501'632.0 > 0.97 * sum_of(ops));
  ResNet8 model;
  model.eval();
  const tt::NoGrad guard;
  const double forward = count_cost([&] { model(tt::randn({1, 3, 32, 32})); }).flops;
  CHECK(forward > 2 * 12'501'632.0);
  CHECK(forward < 1.02 * 2 * 12'501'632.0);
}

TEST_CASE("the memory profiler's peak equals the allocator's, for a whole step") {
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
