// Layouts of images within a graph: the same bits in fewer conversions, and captured layouts outside.
#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <string>
#include <support/compiled_gradients.hpp>
#include <tinytorch/acceleration/channels_last.hpp>
#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/vision/resnet.hpp>

namespace {
namespace tt = tinytorch;
using tinytorch_tests::check_gradient;
using tinytorch_tests::equal_bits;
using tt::Tensor;
using tt::Tensors;

int64_t channels_last_values(const tt::OpGraph& graph) {
  int64_t count = 0;
  for (const tt::GraphStep& s : graph.steps) {
    const tt::GraphValue& x = graph.value(s.outputs[0]);
    count += !s.is_view() && x.shape.size() == 4 && !tt::is_contiguous(x.shape, x.strides) &&
             x.strides == tt::backend::channels_last_strides(x.shape);
  }
  return count;
}
Tensor channels_last(const Tensor& x) {
  return tt::permute(tt::contiguous(tt::permute(x, {0, 2, 3, 1})), {0, 3, 1, 2});
}
// Compiles f, compares replays with f, and returns the report. Results must have the layouts of f.
tt::VariantReport checked(const tt::TensorFunction& f, const Tensors& in, tt::CompileOptions options = {}) {
  options.strict = true;
  tt::CompiledFunction compiled(f, options), as_captured(f, {.channels_last = false, .strict = true});
  for (int call = 0; call < 4; ++call) {
    const Tensors got = compiled(in), want = f(in), other = as_captured(in);
    for (size_t k = 0; k < want.size(); ++k) {
      CHECK(equal_bits(got[k], want[k]));
      CHECK(got[k].strides() == other[k].strides());
    }
  }
  const tt::VariantReport report = compiled.reports()[0];
  CHECK(report.peak_fused <= report.peak_captured);
  CHECK(channels_last_values(*compiled.graphs()[0]) >= report.channels_last);
  return report;
}
}  // namespace

TEST_CASE("convolutions without a bias and pooling have the same bits in both layouts") {
  const tt::NoGrad guard;
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const auto of = [&](std::initializer_list<int64_t> values) {
      return values.begin()[random() % values.size()];
    };
    const int64_t in = of({1, 3, 17, 40}), out = of({1, 3, 17, 64}), side = of({1, 2, 3, 5});
    const tt::DType dtype = round % 2 ? tt::f32 : tt::f64;
    const Tensor x = tt::randn({of({1, 3}), in, of({5, 9, 20}), of({6, 11, 19})}, dtype, tt::cpu),
                 weight = tt::randn({out, in, side, side}, dtype, tt::cpu), y = channels_last(x);
    const tt::Conv2dOptions options{.stride = of({1, 2, 3}), .padding = of({0, 1, 2})};
    CHECK(equal_bits(tt::conv2d(x, weight, {}, options), tt::conv2d(y, weight, {}, options)));
    const int64_t window = of({2, 3, 4});
    CHECK(equal_bits(tt::max_pool2d(x, {.kernel = window, .stride = 2}),
                     tt::max_pool2d(y, {.kernel = window, .stride = 2})));
    CHECK(equal_bits(tt::avg_pool2d(x, {.kernel = window, .stride = 2, .padding = 1}),
                     tt::avg_pool2d(y, {.kernel = window, .stride = 2, .padding = 1})));
    const auto vector = [&] { return tt::rand({in}, dtype, tt::cpu) + 0.5; };
    const Tensor mean = vector(), var = vector(), scale = vector(), shift = vector();
    CHECK(equal_bits(tt::batch_norm_infer(x, mean, var, scale, shift, 1e-5),
                     tt::batch_norm_infer(y, mean, var, scale, shift, 1e-5)));
  }
}

TEST_CASE("a chain of convolutions runs channels-last, between an argument and a result that do not") {
  const tt::NoGrad guard;
  for (const tt::DType dtype : {tt::f32, tt::f64}) {
    const Tensor a = tt::randn({32, 16, 3, 3}, dtype, tt::cpu), b = tt::randn({48, 32, 3, 3}, dtype, tt::cpu),
                 c = tt::randn({16, 48, 1, 1}, dtype, tt::cpu),
                 x = tt::randn({2, 16, 21, 19}, dtype, tt::cpu);
    const auto f = [&](const Tensors& in) {
      const Tensor h = tt::relu(tt::conv2d(in[0], a, {}, {.padding = 1}));
      return Tensors{in[0] + tt::conv2d(tt::silu(tt::conv2d(h, b, {}, {.padding = 1})), c)};
    };
    const tt::VariantReport report = checked(f, {x});
    CHECK(report.channels_last == 2);
    CHECK(report.conversion_bytes_saved > 0);
    CHECK(report.str().find("channels-last results: 2 steps") != std::string::npos);
    const tt::VariantReport off = checked(f, {x}, {.channels_last = false});
    CHECK(off.channels_last == 0);
    CHECK(checked(f, {channels_last(x)}).channels_last == 0);  // it is so already
  }
}

TEST_CASE("the image of three channels is copied, rather than the larger result of the first convolution") {
  const tt::NoGrad guard;
  const Tensor a = tt::randn({32, 3, 5, 5}, tt::f32, tt::cpu),
               b = tt::randn({32, 32, 3, 3}, tt::f32, tt::cpu);
  const auto f = [&](const Tensors& in) {
    Tensor y = tt::max_pool2d(tt::relu(tt::conv2d(in[0], a, {}, {.padding = 2})), {.kernel = 2});
    for (int k = 0; k < 3; ++k) y = y + tt::relu(tt::conv2d(y, b, {}, {.padding = 1}));
    return Tensors{tt::mean(y, {2, 3})};
  };
  CHECK(checked(f, {tt::randn({2, 3, 24, 20}, tt::f32, tt::cpu)}).channels_last >= 4);
}

TEST_CASE("nothing changes if that saves nothing, or would change bits") {
  const tt::NoGrad guard;
  const Tensor weight = tt::randn({64, 32, 3, 3}, tt::f32, tt::cpu),
               pixel = tt::randn({32, 64, 1, 1}, tt::f32, tt::cpu), bias = tt::randn({32}, tt::f32, tt::cpu),
               own = tt::randn({64, 1, 3, 3}, tt::f32, tt::cpu),
               x = tt::randn({1, 32, 30, 30}, tt::f32, tt::cpu);
  const auto conv = [&](const Tensor& t) { return tt::conv2d(t, weight, {}, {.padding = 1}); };
  const std::function<Tensor(const Tensor&)> graphs[] = {
      [&](const Tensor& t) { return conv(t); },
      [&](const Tensor& t) { return tt::softmax(conv(t), 1); },
      [&](const Tensor& t) { return tt::conv2d(conv(t), pixel, bias); },  // its bits depend on the layout
      [&](const Tensor& t) { return tt::conv2d(conv(t), own, {}, {.padding = 1, .groups = 64}); },
      [&](const Tensor& t) { return tt::reshape(conv(t), {-1}) * 2; },
      [&](const Tensor& t) { return tt::conv2d(tt::sigmoid(tt::exp(t)), pixel.slice(1, 0, 32)); },
      [&](const Tensor& t) { return tt::relu(tt::conv2d(t.to(tt::bf16), weight.to(tt::bf16))).to(tt::f32); }};
  for (const auto& g : graphs)
    CHECK(checked([&](const Tensors& in) { return Tensors{g(in[0])}; }, {x}).channels_last == 0);
}

TEST_CASE("values that are results, are viewed, or are read by other operations are copied back once") {
  const tt::NoGrad guard;
  const Tensor a = tt::randn({64, 32, 3, 3}, tt::f32, tt::cpu),
               b = tt::randn({64, 64, 3, 3}, tt::f32, tt::cpu),
               x = tt::randn({1, 32, 12, 10}, tt::f32, tt::cpu);
  const auto net = [&](const Tensor& t, int taps) {
    Tensors out;
    Tensor h = tt::conv2d(t, a, {}, {.padding = 1});
    for (int k = 0; k < 4; ++k) {
      h = tt::relu(tt::conv2d(h, b, {}, {.padding = 1}));
      if (k == 1 && taps == 1) out.push_back(h);
      if (k == 1 && taps == 2) out.push_back(tt::transpose(h, 2, 3));
      if (k == 1 && taps == 3) out.push_back(tt::softmax(h, 3));
      if (k == 1 && taps == 4) out.push_back(tt::cumsum(tt::reshape(h, {64, 120}), 1));
      if (k == 2 && taps == 5) h = tt::max_pool2d(h, {.kernel = 3, .stride = 2, .padding = 1});
      if (k == 2 && taps == 6) h = tt::avg_pool2d(h, {.kernel = 2, .stride = 2});
      if (k == 2 && taps == 7) h = tt::batch_norm_infer(h, tt::zeros({64}), tt::ones({64}), {}, {}, 1e-3);
      if (k == 2 && taps == 8) h = h * 0.5;
      if (k == 2 && taps == 9) h = tt::layer_norm(h, tt::ones({h.size(3)}), tt::zeros({h.size(3)}), 1e-5);
    }
    out.push_back(tt::mean(h, {2, 3}));
    return out;
  };
  for (int taps = 0; taps < 10; ++taps) {
    CAPTURE(taps);
    const auto f = [&](const Tensors& in) { return net(in[0], taps); };
    const tt::VariantReport report = checked(f, {x});
    CHECK_MESSAGE(report.channels_last >= 3, report.str());
  }
}

TEST_CASE("ResNets in evaluation keep their logits, run channels-last, and take other batch sizes") {
  const tt::NoGrad guard;
  for (const bool bottleneck : {false, true}) {
    tt::ResNet net({2, 1, 1}, bottleneck, {.classes = 7, .width = 16});
    net.eval();
    for (tt::NamedTensor& b : net.named_buffers()) {
      if (b.tensor.rank() == 1) b.tensor.copy_(tt::rand(b.tensor.shape(), tt::f32, tt::cpu) + 0.5);
    }
    const auto f = [&](const Tensors& in) { return Tensors{net(in[0])}; };
    tt::CompiledFunction sizes(f, {.strict = true});
    for (const int64_t batch : {1, 2, 3, 4, 5}) {
      const Tensor x = tt::randn({batch, 3, 50, 38}, tt::f32, tt::cpu);
      for (int call = 0; call < 3; ++call) CHECK(equal_bits(sizes({x})[0], f({x})[0]));
      if (batch > 2) continue;
      const tt::VariantReport report = checked(f, {x});
      CHECK_MESSAGE(report.channels_last >= (bottleneck ? 14 : 8), report.str());
    }
  }
}

TEST_CASE("a training step is as before") {
  tt::Conv2d a(16, 32, 3, {.padding = 1}, false), b(32, 16, 3, {.padding = 1}, false);
  const auto f = [&](const Tensors& in) { return Tensors{tt::relu(b(tt::relu(a(in[0])))).sum()}; };
  check_gradient(f, a.weight, tt::randn({2, 16, 12, 12}, tt::f32, tt::cpu));
}
