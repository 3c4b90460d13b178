// Convolutions whose epilogue is batch norm, a sum and an activation: one step, with the bits of all steps.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <random>
#include <string>
#include <support/compiled_gradients.hpp>
#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/vision/resnet.hpp>

namespace {
namespace tt = tinytorch;
using tinytorch_tests::check_gradient;
using tinytorch_tests::equal_bits;
using tt::Tensor;
using tt::Tensors;

// Images with NaN, an infinity and a negative zero.
Tensor images(const tt::Shape& shape, tt::DType dtype, bool channels_last) {
  Tensor x = tt::randn(shape, tt::f32, tt::cpu);
  if (x.numel() > 3) {
    const Tensor flat = tt::reshape(x, {x.numel()});
    flat.select(0, 0).fill_(-0.0),
        flat.select(0, x.numel() / 2).fill_(std::numeric_limits<float>::quiet_NaN());
    flat.select(0, x.numel() - 1).fill_(std::numeric_limits<float>::infinity());
  }
  x = x.to(dtype);
  return channels_last ? tt::permute(tt::contiguous(tt::permute(x, {0, 2, 3, 1})), {0, 3, 1, 2}) : x;
}

struct Case {
  tt::Conv2dOptions options;
  int64_t batch, in, out, height, width, kernel;
  bool bias, norm, residual, channels_last;
  int activation;
  tt::DType dtype;
};

using Activation = std::function<Tensor(const Tensor&)>;
const Activation kActivations[] = {nullptr,
                                   [](const Tensor& x) { return tt::relu(x); },
                                   [](const Tensor& x) { return tt::clamp(x, 0, 6); },
                                   [](const Tensor& x) { return tt::silu(x); },
                                   [](const Tensor& x) { return tt::gelu(x); },
                                   [](const Tensor& x) { return tt::gelu_tanh(x); },
                                   [](const Tensor& x) { return tt::hardswish(x); },
                                   [](const Tensor& x) { return tt::leaky_relu(x, 0.1); }};

Case random_case(std::mt19937& random) {
  const auto of = [&](std::initializer_list<int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  Case c{};
  c.kernel = of({1, 1, 2, 3, 3, 5});
  c.options.stride = {of({1, 1, 2, 3})};
  c.options.padding = {of({0, 1, 2})};
  c.options.dilation = {of({1, 1, 2})};
  c.batch = of({0, 1, 1, 3, 3});
  const int64_t kind = of({0, 0, 0, 1, 2, 3});
  c.in = kind == 0 ? of({1, 3, 17, 64}) : of({2, 6, 64});
  c.out = kind == 0 ? of({1, 3, 17, 64}) : c.in;
  c.options.groups = kind == 0 ? 1 : kind == 1 ? 2 : c.in;
  if (kind == 3) c.out = 2 * c.in;  // depthwise with two results for each channel
  const int64_t least = c.options.dilation.height * (c.kernel - 1) + 1;
  c.height = std::max(least, of({1, 7, 13, 32})), c.width = std::max(least, of({1, 5, 16, 33}));
  c.bias = random() % 2, c.norm = random() % 2, c.residual = random() % 2, c.channels_last = random() % 2;
  c.activation = static_cast<int>(random() % std::size(kActivations));
  c.dtype =
      std::initializer_list<tt::DType>{tt::f32, tt::f32, tt::f64, tt::bf16, tt::f16}.begin()[random() % 5];
  return c;
}

std::string described(const Case& c) {
  std::string text;
  for (const int64_t n : {c.batch, c.in, c.out, c.height, c.width, c.kernel, c.options.stride.height,
                          c.options.padding.height, c.options.dilation.height, c.options.groups})
    text += std::to_string(n) + " ";
  const auto add = [&](bool is, const char* what) { text += is ? what : ""; };
  add(c.bias, "bias "), add(c.norm, "norm "), add(c.residual, "residual "),
      add(c.channels_last, "channels-last ");
  return text + "activation " + std::to_string(c.activation) + " " + tt::name_of(c.dtype);
}

int64_t kernels_of(const tt::CompiledFunction& f) { return f.reports()[0].kernels; }
}  // namespace

TEST_CASE(
    "random convolutions with a bias, batch norm, a residual and an activation: one kernel, the same bits") {
  const tt::NoGrad guard;
  std::mt19937 random(7);
  for (int round = 0; round < 250; ++round) {
    const Case c = random_case(random);
    const std::string about = described(c);
    CAPTURE(round);
    CAPTURE(about);
    const Tensor weight =
        tt::randn({c.out, c.in / c.options.groups, c.kernel, c.kernel}, tt::f32, tt::cpu).to(c.dtype);
    const auto vector = [&](double from) { return (tt::rand({c.out}, tt::f32, tt::cpu) + from).to(c.dtype); };
    const Tensor bias = c.bias ? vector(-0.5) : Tensor(), mean = vector(-0.5), var = vector(0.1),
                 scale = random() % 4 ? vector(0.5) : Tensor(),
                 shift = random() % 4 ? vector(-0.5) : Tensor();
    const bool first = random() % 2;  // the residual is the left operand
    const auto f = [&](const Tensors& x) {
      Tensor y = tt::conv2d(x[0], weight, bias, c.options);
      if (c.norm) y = tt::batch_norm_infer(y, mean, var, scale, shift, 1e-5);
      if (c.residual) y = first ? x[1] + y : y + x[1];
      if (kActivations[c.activation]) y = kActivations[c.activation](y);
      return Tensors{y};
    };
    const Tensor x = images({c.batch, c.in, c.height, c.width}, c.dtype, c.channels_last);
    Tensors in{x};
    if (c.residual) {
      const Tensor y = tt::conv2d(x, weight, bias, c.options);
      in.push_back(tt::empty_like(y, y.dtype()));
      in.back().copy_(images(y.shape(), c.dtype, false));
    }
    tt::CompiledFunction compiled(f, {.strict = true});
    for (int call = 0; call < 4; ++call) REQUIRE(equal_bits(compiled(in)[0], f(in)[0]));
    CHECK(kernels_of(compiled) == 1);
    CHECK(compiled(in)[0].is_contiguous() == f(in)[0].is_contiguous());
  }
}

TEST_CASE(
    "what is read twice, returned, broadcast, of another type or without a kernel stays a step of its own") {
  const tt::NoGrad guard;
  const Tensor weight = tt::randn({6, 4, 3, 3}, tt::f32, tt::cpu), half = tt::full({}, 0.5),
               row = tt::randn({1, 6, 1, 1}, tt::f32, tt::cpu);
  const auto conv = [&](const Tensor& x) { return tt::conv2d(x, weight, {}, {.padding = 1}); };
  struct Graph {
    const char* name;
    int64_t kernels;
    std::function<Tensors(const Tensor&)> f;
  };
  Tensor total = tt::zeros({2, 6, 9, 7}, tt::f32, tt::cpu);
  const Graph graphs[] = {
      {"the result of the convolution is read twice", 2,
       [&](const Tensor& x) {
         const Tensor y = conv(x);
         return Tensors{tt::relu(y) + tt::silu(y)};
       }},
      {"y times itself", 2,
       [&](const Tensor& x) {
         const Tensor y = conv(x);
         return Tensors{y * y};
       }},
      {"the result of the convolution is a result", 2,
       [&](const Tensor& x) {
         const Tensor y = conv(x);
         return Tensors{y, tt::relu(y)};
       }},
      {"a value inside is a result", 2,
       [&](const Tensor& x) {
         const Tensor y = tt::relu(conv(x));
         return Tensors{y, tt::silu(y)};
       }},
      {"a view of a value inside is a result", 2,
       [&](const Tensor& x) {
         const Tensor y = conv(x);
         return Tensors{tt::transpose(y, 0, 1), tt::relu(y)};
       }},
      {"a residual that is broadcast", 2, [&](const Tensor& x) { return Tensors{tt::relu(conv(x) + row)}; }},
      {"a number", 2, [&](const Tensor& x) { return Tensors{conv(x) * half}; }},
      {"another type", 2, [&](const Tensor& x) { return Tensors{tt::relu(conv(x)).to(tt::bf16)}; }},
      {"a function without an epilogue", 2,
       [&](const Tensor& x) { return Tensors{tt::softmax(conv(x), 1)}; }},
      {"a residual of another layout", 2,
       [&](const Tensor& x) {
         return Tensors{conv(x) +
                        tt::permute(tt::reshape(tt::repeat(x.slice(1, 0, 3), {1, 2, 1, 1}), {2, 9, 7, 6}),
                                    {0, 3, 1, 2})};
       }},
      {"a residual that the chain itself makes", 2,
       [&](const Tensor& x) {
         const Tensor y = tt::relu(conv(x));
         return Tensors{tt::sigmoid(y) * y};
       }},
  };
  const Tensor x = tt::randn({2, 4, 9, 7}, tt::f32, tt::cpu);
  for (const Graph& g : graphs) {
    CAPTURE(g.name);
    const auto f = [&](const Tensors& in) { return g.f(in[0]); };
    tt::CompiledFunction compiled(f, {.strict = true});
    const Tensors want = f({x});
    for (int call = 0; call < 4; ++call) {
      const Tensors got = compiled({x});
      for (size_t k = 0; k < want.size(); ++k) CHECK(equal_bits(got[k], want[k]));
    }
    CHECK_MESSAGE(kernels_of(compiled) >= g.kernels, compiled.report());
    tt::CompiledFunction apart(f, {.fuse = false, .strict = true});
    CHECK(equal_bits(apart({x})[0], want[0]));
  }
}

TEST_CASE(
    "a chain whose operands would live for longer than the budget allows is cut, and the report says so") {
  const tt::NoGrad guard;
  const Tensor weight = tt::randn({1, 16, 3, 3}, tt::f32, tt::cpu);
  const auto f = [&](const Tensors& in) {
    const Tensor wide = tt::exp(in[0]);  // needed until the convolution has run
    const Tensor narrow = tt::conv2d(wide, weight, {}, {.padding = 1});
    return Tensors{narrow + tt::softmax(tt::softmax(in[0], 1), 2).slice(1, 0, 1).contiguous()};
  };
  tt::CompiledFunction compiled(f, {.strict = true});
  const Tensor x = tt::randn({1, 16, 20, 20}, tt::f32, tt::cpu);
  for (int call = 0; call < 3; ++call) CHECK(equal_bits(compiled({x})[0], f({x})[0]));
  const tt::VariantReport report = compiled.reports()[0];
  CHECK(report.peak_fused <= report.peak_captured);
  CHECK(report.str().find("conv2d and add: live bytes would rise to") != std::string::npos);
}

TEST_CASE("on a GPU the steps stay apart, and the reason is given") {
  const tt::NoGrad guard;
  const Tensor weight = tt::randn({4, 4, 3, 3}, tt::f32, tt::cpu),
               x = tt::randn({1, 4, 8, 8}, tt::f32, tt::cpu);
  const auto f = [&](const Tensors& in) { return Tensors{tt::relu(tt::conv2d(in[0], weight))}; };
  for (const bool on_gpu : {false, true}) {
    tt::OpGraph graph = tt::capture(f, {x}).graph;
    if (on_gpu)
      for (tt::GraphValue& v : graph.values) v.device = tt::cuda;
    const std::vector<tt::NotFused> refused = tt::fuse_conv_epilogues(graph);
    CHECK(graph.steps.size() == (on_gpu ? 2 : 1));
    REQUIRE(refused.size() == (on_gpu ? 1 : 0));
    if (on_gpu) CHECK(refused[0].reason.find("GPU") != std::string::npos);
  }
}

TEST_CASE("a value that is written in place keeps its order") {
  const tt::NoGrad guard;
  const Tensor weight = tt::randn({4, 4, 3, 3}, tt::f32, tt::cpu);
  Tensor seen = tt::zeros({1, 4, 8, 8}, tt::f32, tt::cpu);
  const auto f = [&](const Tensors& in) {
    const Tensor y = tt::conv2d(in[0], weight, {}, {.padding = 1});
    seen.add_(in[0]);
    return Tensors{tt::relu(y + seen)};
  };
  tt::CompiledFunction compiled(f, {.strict = true});
  const Tensor x = tt::randn({1, 4, 8, 8}, tt::f32, tt::cpu);
  for (int call = 1; call < 6; ++call) {
    const Tensor got = compiled({x})[0], now = seen.detach().clone();
    CHECK(equal_bits(got, tt::relu(tt::conv2d(x, weight, {}, {.padding = 1}) + now)));
  }
}

TEST_CASE("batch norm reads its statistics in each replay") {
  const tt::NoGrad guard;
  tt::BatchNorm2d norm(5);
  norm.eval();
  const Tensor weight = tt::randn({5, 3, 3, 3}, tt::f32, tt::cpu),
               x = tt::randn({2, 3, 6, 6}, tt::f32, tt::cpu);
  const auto f = [&](const Tensors& in) { return Tensors{tt::relu(norm(tt::conv2d(in[0], weight)))}; };
  tt::CompiledFunction compiled(f, {.strict = true});
  for (int call = 0; call < 5; ++call) {
    CHECK(equal_bits(compiled({x})[0], f({x})[0]));
    norm.running_mean.add_(tt::ones({5}), 0.25), norm.running_var.mul_(1.5), norm.weight.mul_(0.5);
  }
  CHECK(kernels_of(compiled) == 1);
}

TEST_CASE(
    "a ResNet in evaluation: the same logits, one kernel for each convolution, a peak that is not higher") {
  const tt::NoGrad guard;
  for (const bool bottleneck : {false, true}) {
    tt::ResNet net({2, 1, 1}, bottleneck, {.classes = 7, .width = 8});
    net.eval();
    for (tt::NamedTensor& b : net.named_buffers()) {
      if (b.tensor.rank() == 1) b.tensor.copy_(tt::rand(b.tensor.shape(), tt::f32, tt::cpu) + 0.5);
    }
    const auto f = [&](const Tensors& in) { return Tensors{net(in[0])}; };
    for (const int64_t batch : {1, 3}) {
      const Tensor x = tt::randn({batch, 3, 50, 38}, tt::f32, tt::cpu);
      tt::CompiledFunction compiled(f, {.channels_last = false, .strict = true}),
          apart(f, {.fuse = false, .strict = true});
      for (int call = 0; call < 4; ++call) CHECK(equal_bits(compiled({x})[0], f({x})[0]));
      apart({x});
      const tt::VariantReport report = compiled.reports()[0];
      int64_t convolutions = 0, others = 0;
      for (const tt::GraphStep& s : compiled.graphs()[0]->steps) {
        const std::string name = s.op->name();
        const bool conv = name.find("conv2d") != std::string::npos;
        convolutions += conv, others += !conv && !s.is_view();
        CHECK(name.find("fused(batch") == std::string::npos);
        CHECK(name != "batch_norm_infer");
      }
      CHECK(convolutions == (bottleneck ? 1 + 12 + 3 : 1 + 8 + 2));
      CHECK_MESSAGE(others == 3, compiled.report());  // two pools, and the linear layer
      CHECK(report.peak_fused <= report.peak_captured);
      CHECK(report.kernels_captured == apart.reports()[0].kernels);
    }
  }
}

TEST_CASE("a training step keeps the values that its derivative reads") {
  tt::Conv2d conv(3, 4, 3);
  const auto f = [&](const Tensors& in) { return Tensors{tt::relu(conv(in[0])).sum()}; };
  check_gradient(f, conv.weight, tt::randn({2, 3, 6, 6}, tt::f32, tt::cpu));
}
