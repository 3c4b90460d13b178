// The cases that bench_ops times. bench/peers/ops_torch.py uses the same names for the same work.
//
// A size n means n elements: vectors [n], and matrices [R, C] with R C = n and C <= 1024. If n is 1024 times
// a power of four, square matrices [S, S] have exactly n elements. Images are [images, channels, 32, 32] with
// n elements. "+grad" is forward and backward, with a given gradient of the result. A case that makes sense
// in one shape only (attention) states its n and takes its operands from the vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>

namespace bench {

namespace tt = tinytorch;
using tt::Tensor;

struct Inputs {
  int64_t n, cols, rows, side, channels, images;
  Tensor x, y, positive;          // [n]: normal, normal, 0.5 to 1.5
  Tensor m, k, flags, integers;   // [R, C]: normal, normal, bool, i64 in [0, C)
  Tensor row, column, row_index;  // [C], [R, 1], i64 [R] in [0, R)
  Tensor column_index;            // i64 [R, C] in [0, R)
  Tensor square, other;           // [S, S]
  Tensor weight, class_of;        // [C, C]; i64 [R] in [0, C)
  Tensor image, filter, filter_bias, channel, channel_positive;
  Tensor half;  // bf16 [n]

  explicit Inputs(int64_t count) : n(count) {
    side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(n))));
    cols = std::min<int64_t>(1024, side);
    rows = n / cols;
    channels = n >= 16 * 1024 ? 16 : 1;
    images = std::max<int64_t>(1, n / (channels * 1024));
    x = tt::randn({n}), y = tt::randn({n}), positive = tt::rand({n}) + 0.5;
    m = tt::randn({rows, cols}), k = tt::randn({rows, cols}), flags = tt::randn({rows, cols}) > 0;
    integers = tt::randint(0, cols, {rows, cols}), row = tt::randn({cols}), column = tt::randn({rows, 1});
    row_index = tt::randint(0, rows, {rows}), column_index = tt::randint(0, rows, {rows, cols});
    square = tt::randn({side, side}), other = tt::randn({side, side});
    weight = tt::randn({cols, cols}), class_of = tt::randint(0, cols, {rows});
    image = tt::randn({images, channels, 32, 32}), filter = tt::randn({channels, channels, 3, 3});
    filter_bias = tt::randn({channels}), channel = tt::randn({channels}),
    channel_positive = tt::rand({channels}) + 0.5;
    half = x.to(tt::bf16);
  }
};

using Work = std::function<void()>;
struct Case {
  std::string name;
  std::function<Work(const Inputs&)> prepare;
  int64_t n = 0;  // the only size of the case; 0: any size
};

// A forward call. Its result is destroyed at once, like the temporary of an expression.
template <class F>
Case forward(const char* name, F f) {
  return {name, [f](const Inputs& in) -> Work { return [f, &in] { (void)f(in); }; }};
}

// Forward and backward through f(operands).
template <class G, class F>
Case with_grad(const char* name, G operands, F f) {
  return {std::string(name) + "+grad", [operands, f](const Inputs& in) -> Work {
            tt::Tensors leaves;
            for (const Tensor& t : operands(in)) {
              leaves.push_back(t.detach());
              if (tt::is_floating(t.dtype())) leaves.back().requires_grad_();
            }
            Tensor g = f(leaves).detach();
            g.fill_(1);  // ones with the memory layout of the result
            return [leaves, g, f]() mutable {
              f(leaves).backward(g);
              for (Tensor& t : leaves) t.zero_grad();
            };
          }};
}

// Attention of GPT-2 124M: 12 heads, 1024 tokens, 64 features per head.
inline constexpr int64_t kHeadsSize = 12 * 1024 * 64;
inline Tensor heads(const Tensor& vector) { return vector.reshape({1, 12, 1024, 64}); }
inline tt::Tensors attention_operands(const Inputs& in) {
  return {heads(in.x), heads(in.y), heads(in.positive)};
}
inline std::vector<Case> attention_cases(const char* name, bool causal) {
  const auto attend = [causal](const tt::Tensors& v) {
    return tt::scaled_dot_product_attention(v[0], v[1], v[2], {.causal = causal});
  };
  std::vector<Case> cases{forward(name, [=](const Inputs& in) { return attend(attention_operands(in)); }),
                          with_grad(name, attention_operands, attend)};
  for (Case& c : cases) c.n = kHeadsSize;
  return cases;
}

// Convolutions of ResNet-8 (images of 32 x 32, batch 32) and of ResNet-18 (224 x 224, batch 2), one of each
// kind, and depthwise convolutions of keyword spotters and of MobileNet. Images are channels-first or, with
// "nhwc", channels-last. bench/peers/ops_torch.py parses the shapes from the names.
struct ConvCase {
  int64_t batch, channels, height, width, filters, kernel, stride;
  bool depthwise = false;

  std::string name(bool nhwc) const {
    const auto s = [](int64_t x) { return std::to_string(x); };
    return "conv2d " + s(batch) + "x" + s(channels) + "x" + s(height) + "x" + s(width) + " to " + s(filters) +
           ", " + s(kernel) + "x" + s(kernel) + " stride " + s(stride) + (depthwise ? " depthwise" : "") +
           (nhwc ? " nhwc" : "");
  }
};
inline std::vector<Case> conv_cases() {
  std::vector<Case> cases;
  for (const ConvCase& c : {ConvCase{32, 3, 32, 32, 16, 3, 1},
                            {32, 16, 32, 32, 16, 3, 1},
                            {32, 16, 32, 32, 32, 3, 2},
                            {32, 32, 16, 16, 32, 3, 1},
                            {32, 64, 8, 8, 64, 3, 1},
                            {2, 3, 224, 224, 64, 7, 2},
                            {2, 64, 56, 56, 64, 3, 1},
                            {2, 64, 56, 56, 128, 3, 2},
                            {2, 64, 56, 56, 128, 1, 2},
                            {2, 128, 28, 28, 128, 3, 1},
                            {2, 256, 14, 14, 256, 3, 1},
                            {2, 512, 7, 7, 512, 3, 1},
                            {32, 64, 25, 5, 64, 3, 1, true},
                            {8, 96, 56, 56, 96, 3, 1, true},
                            {8, 96, 56, 56, 96, 3, 2, true},
                            {8, 144, 28, 28, 144, 3, 1, true},
                            {8, 144, 28, 28, 144, 5, 1, true}}) {
    for (const bool nhwc : {false, true}) {
      const auto operands = [c, nhwc](const Inputs& in) -> tt::Tensors {
        const tt::Shape filter{c.filters, c.depthwise ? 1 : c.channels, c.kernel, c.kernel};
        const Tensor pixels = in.x.slice(0, 0, c.batch * c.channels * c.height * c.width);
        return {nhwc ? pixels.reshape({c.batch, c.height, c.width, c.channels}).permute({0, 3, 1, 2})
                     : pixels.reshape({c.batch, c.channels, c.height, c.width}),
                in.y.slice(0, 0, filter.numel()).reshape(filter)};
      };
      const auto call = [c](const tt::Tensors& v) {
        return tt::conv2d(
            v[0], v[1], {},
            {.stride = c.stride, .padding = c.kernel / 2, .groups = c.depthwise ? c.channels : 1});
      };
      const std::string name = c.name(nhwc);
      cases.push_back(forward(name.c_str(), [=](const Inputs& in) { return call(operands(in)); }));
      cases.push_back(with_grad(name.c_str(), operands, call));
    }
  }
  for (Case& c : cases) c.n = int64_t{1} << 22;
  return cases;
}

// Row shapes like those of bench_cuda's grid: few long rows, odd lengths, narrow rows, vocabularies. Every
// third pair of a call and a shape is taken. Then operands whose memory order is transposed against the
// result
// ("across"), and rows with a stride larger than their length ("far apart"). bench/peers/ops_torch.py parses
// the shapes of "rows ..." from the names and lists the other cases.
inline Tensor row_call(const std::string& op, const tt::Tensors& v) {
  if (op == "softmax") return tt::softmax(v[0]);
  if (op == "log_softmax") return tt::log_softmax(v[0]);
  if (op == "layer_norm") return tt::layer_norm(v[0], v[1], v[2]);
  if (op == "rms_norm") return tt::rms_norm(v[0], v[1]);
  if (op == "sum") return tt::sum(v[0], {1});
  if (op == "max") return tt::max(v[0], {1});
  return tt::argmax(v[0], 1);
}
inline std::vector<Case> row_cases() {
  constexpr std::pair<int64_t, int64_t> kShapes[] = {
      {1, 4'000'003}, {4, 1'000'003}, {7, 100'003},   {3, 262'144},   {30'011, 131},
      {4099, 1001},   {1031, 4001},   {1'000'000, 1}, {1'000'000, 3}, {500'000, 7},
      {100'000, 33},  {65'536, 64},   {16'384, 255},  {32, 128'256},  {64, 50'257}};
  const char* const kCalls[] = {"softmax", "layer_norm+grad", "sum",          "rms_norm", "log_softmax+grad",
                                "max",     "layer_norm",      "softmax+grad", "argmax",   "log_softmax"};
  std::vector<Case> cases;
  for (size_t s = 0; s < std::size(kShapes); ++s) {
    for (size_t k = s % 3; k < std::size(kCalls); k += 3) {
      const auto [rows, cols] = kShapes[s];
      const std::string call = kCalls[k], op = call.substr(0, call.find('+'));
      const auto operands = [op, rows = rows, cols = cols](const Inputs& in) -> tt::Tensors {
        tt::Tensors v{in.x.slice(0, 0, rows * cols).reshape({rows, cols})};
        if (op == "layer_norm" || op == "rms_norm") v.push_back(in.y.slice(0, 0, cols));
        if (op == "layer_norm") v.push_back(in.positive.slice(0, 0, cols));
        return v;
      };
      const std::string name = "rows " + std::to_string(rows) + "x" + std::to_string(cols) + " " + op;
      const auto f = [op](const tt::Tensors& v) { return row_call(op, v); };
      cases.push_back(call == op ? forward(name.c_str(), [=](const Inputs& in) { return f(operands(in)); })
                                 : with_grad(name.c_str(), operands, f));
    }
  }
  const auto add = [&](const char* name, auto f) { cases.push_back(forward(name, f)); };
  const auto shaped = [](const Tensor& v, const tt::Shape& shape) {
    return v.slice(0, 0, shape.numel()).reshape(shape);
  };
  add("across 2000x2000 add", [=](const Inputs& in) {
    return tt::add(shaped(in.x, {2000, 2000}), shaped(in.y, {2000, 2000}).t());
  });
  add("across 1031x4001 lt", [=](const Inputs& in) {
    return tt::lt(shaped(in.x, {1031, 4001}), shaped(in.y, {4001, 1031}).t());
  });
  add("across 64x256x250 mul permuted", [=](const Inputs& in) {
    return tt::mul(shaped(in.x, {64, 256, 250}), shaped(in.y, {250, 64, 256}).permute({1, 2, 0}));
  });
  add("across 2000x2000 add bf16", [=](const Inputs& in) {
    return tt::add(shaped(in.half, {2000, 2000}), shaped(in.half, {2000, 2000}).t());
  });
  add("across 100000x33 sub", [=](const Inputs& in) {
    return tt::sub(shaped(in.x, {100'000, 33}), shaped(in.y, {33, 100'000}).t());
  });
  add("across 250x64x256 contiguous permuted", [=](const Inputs& in) {
    return tt::contiguous(shaped(in.x, {64, 256, 250}).permute({2, 0, 1}));
  });
  add("far apart 4000x64 of 1000 add", [=](const Inputs& in) {
    return tt::add(shaped(in.x, {4000, 1000}).slice(1, 3, 67), shaped(in.y, {4000, 1000}).slice(1, 5, 69));
  });
  add("far apart 2000x500 of 2000 softmax", [=](const Inputs& in) {
    return tt::softmax(shaped(in.x, {2000, 2000}).slice(1, 1, 501));
  });
  add("far apart 2000x500 of 2000 sum", [=](const Inputs& in) {
    return tt::sum(shaped(in.x, {2000, 2000}).slice(1, 1, 501), {1});
  });
  for (Case& c : cases) c.n = int64_t{1} << 22;
  return cases;
}

// Work of a training run: an optimizer's step on ten million parameters, and an epoch of a small net.
inline std::vector<Case> training_cases() {
  const auto step_of_adamw = [](const Inputs& in) -> Work {
    tt::NamedTensors parameters;
    for (int i = 0; i < 10; ++i) {
      Tensor p = in.x.slice(0, i * 1'000'000, (i + 1) * 1'000'000).clone();
      p.requires_grad_();
      p.set_grad(in.y.slice(0, i * 1'000'000, (i + 1) * 1'000'000).clone());
      parameters.push_back({"p" + std::to_string(i), p});
    }
    const auto optimizer = std::make_shared<tt::AdamW>(parameters);
    return [optimizer] { optimizer->step(); };
  };
  // 2048 digits of 28 x 28 in batches of 32: two convolutions, a layer, AdamW.
  const auto epoch = [](const Inputs& in) -> Work {
    constexpr int64_t kImages = 2048, kBatch = 32, kPixels = 28 * 28;
    const Tensor images = in.x.slice(0, 0, kImages * kPixels).reshape({kImages, 1, 28, 28});
    const Tensor labels = tt::randint(0, 10, {kImages});
    const auto net =
        std::make_shared<tt::Sequential>(tt::Conv2d(1, 16, 3, {.padding = 1}), tt::ReLU(), tt::MaxPool2d(2),
                                         tt::Conv2d(16, 32, 3, {.padding = 1}), tt::ReLU(), tt::MaxPool2d(2),
                                         tt::Flatten(), tt::Linear(32 * 7 * 7, 10));
    const auto optimizer = std::make_shared<tt::AdamW>(net->named_parameters());
    return [=] {
      for (int64_t first = 0; first < kImages; first += kBatch) {
        optimizer->zero_grad();
        const Tensor scores = (*net)(images.slice(0, first, first + kBatch));
        tt::cross_entropy(scores, labels.slice(0, first, first + kBatch)).backward();
        optimizer->step();
      }
    };
  };
  return {{"adamw 10M, fused", step_of_adamw, int64_t{1} << 24},
          {"adamw 10M, foreach", step_of_adamw, int64_t{1} << 24},
          {"digits epoch", epoch, int64_t{1} << 22}};
}

// clang-format off
#define FORWARD(name, ...) forward(name, [](const Inputs& in) { return __VA_ARGS__; })
#define WITH_GRAD(name, operands, ...) with_grad(name, [](const Inputs& in) -> tt::Tensors { return operands; }, [](const tt::Tensors& v) { return __VA_ARGS__; })
#define LIST(...) {__VA_ARGS__}
inline std::vector<Case> op_cases() {
  std::vector<Case> cases = {
      FORWARD("full", tt::full({in.n}, 1.5)), FORWARD("arange", tt::arange(0, in.n)), FORWARD("linspace", tt::linspace(0, 1, in.n)),
      FORWARD("eye", tt::eye(in.side)), FORWARD("rand", tt::rand({in.n})), FORWARD("randn", tt::randn({in.n})),
      FORWARD("randint", tt::randint(0, 100, {in.n})), FORWARD("bernoulli", tt::bernoulli(0.3, {in.n})),

      FORWARD("neg", tt::neg(in.x)), FORWARD("abs", tt::abs(in.x)), FORWARD("sign", tt::sign(in.x)),
      FORWARD("square", tt::square(in.x)), FORWARD("clamp", tt::clamp(in.x, -0.5, 0.5)), FORWARD("floor", tt::floor(in.x)),
      FORWARD("ceil", tt::ceil(in.x)), FORWARD("round", tt::round(in.x)), FORWARD("logical_not", tt::logical_not(in.flags)),
      FORWARD("exp", tt::exp(in.x)), FORWARD("log", tt::log(in.positive)), FORWARD("sqrt", tt::sqrt(in.positive)),
      FORWARD("rsqrt", tt::rsqrt(in.positive)), FORWARD("reciprocal", tt::reciprocal(in.positive)), FORWARD("sin", tt::sin(in.x)),
      FORWARD("cos", tt::cos(in.x)), FORWARD("tanh", tt::tanh(in.x)), FORWARD("sigmoid", tt::sigmoid(in.x)),
      FORWARD("erf", tt::erf(in.x)), FORWARD("relu", tt::relu(in.x)), FORWARD("leaky_relu", tt::leaky_relu(in.x)),
      FORWARD("silu", tt::silu(in.x)), FORWARD("gelu", tt::gelu(in.x)), FORWARD("gelu_tanh", tt::gelu_tanh(in.x)),
      FORWARD("exp bf16", tt::exp(in.half)), FORWARD("relu bf16", tt::relu(in.half)),

      FORWARD("add", tt::add(in.x, in.y)), FORWARD("sub", tt::sub(in.x, in.y)), FORWARD("mul", tt::mul(in.x, in.y)),
      FORWARD("div", tt::div(in.x, in.y)), FORWARD("pow", tt::pow(in.positive, in.y)), FORWARD("maximum", tt::maximum(in.x, in.y)),
      FORWARD("minimum", tt::minimum(in.x, in.y)), FORWARD("eq", tt::eq(in.x, in.y)), FORWARD("ne", tt::ne(in.x, in.y)),
      FORWARD("lt", tt::lt(in.x, in.y)), FORWARD("le", tt::le(in.x, in.y)), FORWARD("gt", tt::gt(in.x, in.y)),
      FORWARD("ge", tt::ge(in.x, in.y)), FORWARD("logical_and", tt::logical_and(in.flags, in.flags)),
      FORWARD("logical_or", tt::logical_or(in.flags, in.flags)), FORWARD("add scalar", in.x + 1.5),
      FORWARD("add row", tt::add(in.m, in.row)), FORWARD("add column", tt::add(in.m, in.column)),
      FORWARD("add transposed", tt::add(in.square, in.other.t())), FORWARD("add bf16", tt::add(in.half, in.half)),
      FORWARD("where", tt::where(in.flags, in.m, in.k)), FORWARD("masked_fill", tt::masked_fill(in.m, in.flags, 0)),

      FORWARD("sum", tt::sum(in.x)), FORWARD("sum rows", tt::sum(in.m, {1})), FORWARD("sum columns", tt::sum(in.m, {0})),
      FORWARD("mean", tt::mean(in.x)), FORWARD("mean rows", tt::mean(in.m, {1})), FORWARD("prod", tt::prod(in.positive)),
      FORWARD("max", tt::max(in.x)), FORWARD("max rows", tt::max(in.m, {1})), FORWARD("max columns", tt::max(in.m, {0})),
      FORWARD("min", tt::min(in.x)), FORWARD("any", tt::any(in.flags)), FORWARD("all", tt::all(in.flags)),
      FORWARD("any rows", tt::any(in.flags, {1})), FORWARD("var", tt::var(in.x)), FORWARD("var rows", tt::var(in.m, {1})),
      FORWARD("var columns", tt::var(in.m, {0})), FORWARD("stddev rows", tt::stddev(in.m, {1})), FORWARD("norm", tt::norm(in.x)),
      FORWARD("norm rows", tt::norm(in.m, {1})), FORWARD("argmax rows", tt::argmax(in.m, 1)),
      FORWARD("argmax columns", tt::argmax(in.m, 0)), FORWARD("argmin rows", tt::argmin(in.m, 1)),
      FORWARD("cumsum rows", tt::cumsum(in.m, 1)), FORWARD("cumsum columns", tt::cumsum(in.m, 0)),
      FORWARD("cumsum", tt::cumsum(in.x, 0)), FORWARD("sum_to", tt::sum_to(in.m, in.row.shape())),
      FORWARD("prod rows", tt::prod(in.positive.reshape({in.rows, in.cols}), {1})), FORWARD("min rows", tt::min(in.m, {1})),
      FORWARD("min columns", tt::min(in.m, {0})), FORWARD("all rows", tt::all(in.flags, {1})),
      FORWARD("any columns", tt::any(in.flags, {0})), FORWARD("norm columns", tt::norm(in.m, {0})),
      FORWARD("argmin columns", tt::argmin(in.m, 0)), FORWARD("sum bf16", tt::sum(in.half)),

      FORWARD("reshape", tt::reshape(in.x, {in.rows, in.cols})), FORWARD("transpose", tt::transpose(in.m, 0, 1)),
      FORWARD("slice", tt::slice(in.x, 0, 1, -1)), FORWARD("clone", tt::clone(in.x)),
      FORWARD("contiguous transposed", tt::contiguous(in.square.t())),
      FORWARD("contiguous permuted", tt::contiguous(tt::permute(in.image, {0, 2, 3, 1}))),
      FORWARD("cast bf16", tt::cast(in.x, tt::bf16)), FORWARD("cast f32", tt::cast(in.half, tt::f32)),
      FORWARD("cast i64", tt::cast(in.x, tt::i64)), FORWARD("cat", tt::cat({in.x, in.y})),
      FORWARD("cat columns", tt::cat({in.m, in.k}, 1)), FORWARD("stack", tt::stack({in.x, in.y}, 1)),
      FORWARD("pad", tt::pad(in.m, {{1, 1}, {2, 2}})), FORWARD("flip", tt::flip(in.m, {0})), FORWARD("flip rows", tt::flip(in.m, {1})),
      FORWARD("tril", tt::tril(in.square)), FORWARD("triu", tt::triu(in.square)),
      FORWARD("index_select", tt::index_select(in.m, 0, in.row_index)), FORWARD("gather rows", tt::gather(in.m, 1, in.integers)),
      FORWARD("gather columns", tt::gather(in.m, 0, in.column_index)),
      FORWARD("scatter_add rows", tt::scatter_add(in.m, 1, in.integers, in.k)),
      FORWARD("scatter_add columns", tt::scatter_add(in.m, 0, in.column_index, in.k)),
      FORWARD("sort rows", tt::sort(in.m)), FORWARD("sort", tt::sort(in.x)), FORWARD("sort i64", tt::sort(in.integers)),
      FORWARD("topk rows", tt::topk(in.m, std::min<int64_t>(10, in.m.size(1)))),
      FORWARD("topk", tt::topk(in.x, std::min<int64_t>(10, in.x.numel()))),

      FORWARD("matmul", tt::matmul(in.square, in.other)), FORWARD("matmul transposed", tt::matmul(in.square, in.other.t())),
      FORWARD("matmul vector", tt::matmul(in.square, in.other[0])), FORWARD("linear", tt::linear(in.m, in.weight, in.row)),
      FORWARD("linear_residual", tt::linear_residual(in.m, in.weight, in.row, in.k)),
      FORWARD("logsumexp rows", tt::logsumexp(in.m, {1})),
      FORWARD("conv2d", tt::conv2d(in.image, in.filter, in.filter_bias, {1, 1})), FORWARD("max_pool2d", tt::max_pool2d(in.image)),
      FORWARD("avg_pool2d", tt::avg_pool2d(in.image)), FORWARD("adaptive_avg_pool2d", tt::adaptive_avg_pool2d(in.image, 4, 4)),
      FORWARD("softmax", tt::softmax(in.m)), FORWARD("log_softmax", tt::log_softmax(in.m)), FORWARD("softmax columns", tt::softmax(in.m, 0)),
      FORWARD("layer_norm", tt::layer_norm(in.m, in.row, in.row)), FORWARD("rms_norm", tt::rms_norm(in.m, in.row)),
      FORWARD("bias_activation", tt::bias_activation(in.m, in.row, tt::Activation::gelu)),
      FORWARD("residual_layer_norm", tt::residual_layer_norm(in.m, in.k, in.row, in.row)),
      FORWARD("residual_rms_norm", tt::residual_rms_norm(in.m, in.k, in.row)),
      FORWARD("batch_norm_train", tt::batch_norm_train(in.image, in.channel, in.channel)),
      FORWARD("batch_norm_infer", tt::batch_norm_infer(in.image, in.channel, in.channel_positive, in.channel, in.channel)),
      FORWARD("group_norm", tt::group_norm(in.image, in.channels, in.channel, in.channel)),
      FORWARD("embedding", tt::embedding(in.m, in.row_index)), FORWARD("dropout", tt::dropout(in.x, 0.1)),
      FORWARD("cross_entropy", tt::cross_entropy(in.m, in.class_of)), FORWARD("mse_loss", tt::mse_loss(in.x, in.y)),
      FORWARD("bce_with_logits", tt::bce_with_logits(in.x, in.positive)),
      WITH_GRAD("conv2d", LIST(in.image, in.filter, in.filter_bias), tt::conv2d(v[0], v[1], v[2], {1, 1})),
      WITH_GRAD("max_pool2d", LIST(in.image), tt::max_pool2d(v[0])), WITH_GRAD("softmax", LIST(in.m), tt::softmax(v[0])),
      WITH_GRAD("layer_norm", LIST(in.m, in.row, in.row), tt::layer_norm(v[0], v[1], v[2])),
      WITH_GRAD("log_softmax", LIST(in.m), tt::log_softmax(v[0])), WITH_GRAD("rms_norm", LIST(in.m, in.row), tt::rms_norm(v[0], v[1])),
      WITH_GRAD("bias_activation", LIST(in.m, in.row), tt::bias_activation(v[0], v[1], tt::Activation::gelu)),
      WITH_GRAD("cross_entropy", LIST(in.m, in.class_of), tt::cross_entropy(v[0], v[1])),
      WITH_GRAD("embedding", LIST(in.m, in.row_index), tt::embedding(v[0], v[1])),
      WITH_GRAD("gelu", LIST(in.x), tt::gelu(v[0])), WITH_GRAD("relu", LIST(in.x), tt::relu(v[0])),
      WITH_GRAD("mul", LIST(in.x, in.y), tt::mul(v[0], v[1])), WITH_GRAD("add row", LIST(in.m, in.row), tt::add(v[0], v[1])),
      WITH_GRAD("sum rows", LIST(in.m), tt::sum(v[0], {1})), WITH_GRAD("matmul", LIST(in.square, in.other), tt::matmul(v[0], v[1])),
      WITH_GRAD("linear", LIST(in.m, in.weight, in.row), tt::linear(v[0], v[1], v[2])),
      WITH_GRAD("gather rows", LIST(in.m, in.integers), tt::gather(v[0], 1, v[1])),
  };
  for (const bool causal : {false, true}) {
    for (Case& c : attention_cases(causal ? "attention causal" : "attention", causal)) cases.push_back(std::move(c));
  }
  for (Case& c : conv_cases()) cases.push_back(std::move(c));
  for (Case& c : row_cases()) cases.push_back(std::move(c));
  for (Case& c : training_cases()) cases.push_back(std::move(c));
  return cases;
}
#undef LIST
#undef WITH_GRAD
#undef FORWARD
// clang-format on

}  // namespace bench
