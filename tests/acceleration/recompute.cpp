// Recomputation under a byte budget: lower peaks, the same bits, and a report of the price.
#include <doctest/doctest.h>

#include <tinytorch/acceleration/compile_step.hpp>
#include <tinytorch/acceleration/peak_chart.hpp>
#include <tinytorch/layers/layers.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

// A deep chain whose activations are kept for the backward pass.
struct Deep : tt::Module {
  std::vector<std::shared_ptr<tt::Linear>> layers;
  Deep() {
    for (int k = 0; k < 6; ++k)
      layers.push_back(add("layer" + std::to_string(k), std::make_shared<tt::Linear>(8, 8)));
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (const auto& layer : layers) h = tt::dropout(tt::gelu(tt::sin((*layer)(h)) * 1.5 + h), 0.25);
    return h;
  }
};
Tensor loss_of(const Tensor& y, const Tensor& t) { return tt::mse_loss(y, t); }
}  // namespace

TEST_CASE("a value that waits for its next use over the peak is computed twice") {
  const Tensor x = tt::randn({64}, tt::f32, tt::cpu);
  const auto f = [](const Tensors& in) {
    const Tensor early = tt::exp(in[0]);          // waits
    const Tensor wide = tt::outer(in[0], in[0]);  // the peak
    return Tensors{wide.sum() + early.sum()};
  };
  tt::Captured c = tt::capture(f, {x});
  const int64_t before = tt::liveness(c.graph).peak();
  const auto steps = std::ssize(c.graph.steps);
  const tt::Recomputed r = tt::recompute(c.graph, 1);
  CHECK(r.steps >= 1);
  CHECK(r.peak_before == before);
  CHECK(r.peak_after < before);
  CHECK(r.peak_after >= 64 * 64 * 4);
  CHECK(r.peak_after == tt::liveness(c.graph).peak());
  CHECK(std::ssize(c.graph.steps) == steps + r.steps);
  tt::Executable executable(std::move(c.graph));
  const Tensor sum = tt::empty({}, tt::f32, tt::cpu);
  executable.run({x}, {sum});
  CHECK(sum.item() == c.outputs[0].item());
}

TEST_CASE("a budget that is met already changes nothing") {
  tt::Captured c =
      tt::capture([](const Tensors& in) { return Tensors{tt::exp(in[0]) * 2}; }, {tt::ones({8})});
  const auto steps = std::ssize(c.graph.steps);
  CHECK(tt::recompute(c.graph, 1 << 20).steps == 0);
  CHECK(std::ssize(c.graph.steps) == steps);
}

TEST_CASE("training steps with smaller and smaller budgets: less memory, the same losses and weights") {
  const Tensor x = tt::randn({32, 8}), t = tt::randn({32, 8});
  int64_t free_peak = 0, last_peak = 0;
  std::vector<float> weights;
  for (const double share : {1.0, 0.8, 0.6, 0.1}) {
    CAPTURE(share);
    tt::manual_seed(5);
    Deep net;
    tt::SGD sgd(net.named_parameters(), {.lr = 0.1});
    tt::StepCompileOptions options{.compile = {.kernels = tt::RegionKernels::interpreted, .strict = true}};
    if (share < 1)
      options.compile.memory_budget = static_cast<int64_t>(share * static_cast<double>(free_peak));
    auto step = tt::compile_step(net, sgd, loss_of, options);
    for (int k = 0; k < 4; ++k) step(x, t);
    const tt::VariantReport r = step.reports()[0];
    if (share == 1) {
      free_peak = last_peak = r.peak_fused;
      weights = net.layers[0]->weight.to_vector();
      CHECK(r.recomputed == 0);
    } else {
      CHECK(r.peak_fused <= last_peak);
      CHECK(r.recomputed > 0);
      CHECK(r.recomputed_flops > 0);
      CHECK(net.layers[0]->weight.to_vector() == weights);
      const bool met = r.peak_fused <= options.compile.memory_budget;
      CHECK((step.report().find("not reached") != std::string::npos) == !met);
      last_peak = r.peak_fused;
    }
    const std::string chart = tt::peak_chart(r);
    CHECK(chart.find("<svg") == 0);
    CHECK(chart.find("planned") != std::string::npos);
  }
  CHECK(last_peak < 9 * free_peak / 10);
}
