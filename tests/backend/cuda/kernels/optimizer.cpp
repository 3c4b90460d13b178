// Optimizer steps on the GPU against the CPU's, which tests/backend/cpu/optimizer.cpp compares with loops.
#include <support/device.hpp>
#include <tinytorch/backend/cuda/runtime/graph.hpp>
#include <tinytorch/layers/adagrad.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/clip.hpp>
#include <tinytorch/layers/lion.hpp>
#include <tinytorch/layers/rmsprop.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/tinytorch.hpp>

#include <cmath>

namespace tt = tinytorch;

namespace {

// Sizes around vectors and chunks in every dtype; one parameter has no gradient, some are not aligned.
// kManyParameters parameters exceed the table of one launch.
constexpr int kParameters = 24, kManyParameters = 262;
tt::NamedTensors parameters_on(tt::Device device, uint64_t seed, int count = kParameters) {
  constexpr int64_t kSizes[] = {1, 3, 5, 257, 8193, 0};
  constexpr tt::DType kDTypes[] = {tt::f32, tt::bf16, tt::f16, tt::f64};
  tt::Generator generator(seed);
  tt::NamedTensors all;
  for (int i = 0; i < count; ++i) {
    const int64_t n = i < kParameters ? kSizes[i / 4] : 2;
    const tt::DType dtype = kDTypes[i % 4];
    std::vector<double> values(static_cast<size_t>(n + 1)), slopes(values.size());
    for (double& v : values) v = generator.uniform(-1, 1);
    for (double& v : slopes) v = generator.uniform(-1, 1);
    tt::Tensor p = tt::from_data(values).to(dtype).to(device), g = tt::from_data(slopes).to(dtype).to(device);
    p = p.slice(0, i % 3 == 0, n + (i % 3 == 0)).detach();
    p.requires_grad_();
    if (i != 7) p.set_grad(g.slice(0, i % 5 == 0, n + (i % 5 == 0)));
    all.push_back({"p" + std::to_string(i), p});
  }
  return all;
}
tt::Tensors tensors_of(const tt::NamedTensors& named) {
  tt::Tensors all;
  for (const tt::NamedTensor& p : named) all.push_back(p.tensor);
  return all;
}
std::vector<double> values_of(const tt::Tensor& t) {
  return t.detach().to(tt::cpu).to(tt::f64).to_vector<double>();
}

void check_same(const tt::StateDict& a, const tt::StateDict& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& entry : a) {
    INFO(entry.first);
    const tt::Tensor& tensor = entry.second;
    const std::vector<double> x = values_of(tensor), y = values_of(b.at(entry.first));
    const double tolerance = 16 * tt::epsilon_of(tensor.dtype() == tt::i64 ? tt::f64 : tensor.dtype());
    REQUIRE(x.size() == y.size());
    size_t worst = 0;
    const auto error = [&](size_t i) { return std::abs(x[i] - y[i]) / (1 + std::abs(y[i])); };
    for (size_t i = 0; i < x.size() && !std::isnan(error(worst)); ++i)
      if (!(error(i) <= error(worst))) worst = i;
    if (x.empty()) continue;
    INFO("element ", worst, ": ", x[worst], ", expected ", y[worst]);
    CHECK(error(worst) <= tolerance);
  }
}
tt::StateDict everything(const tt::Optimizer& optimizer, const tt::NamedTensors& parameters) {
  tt::StateDict all = optimizer.state_dict();
  for (const tt::NamedTensor& p : parameters) all.emplace(p.name, p.tensor);
  return all;
}

template <class Optimizer, class Options>
void check_against_cpu(const Options& options, int count = kParameters) {
  const tt::NamedTensors on_cpu = parameters_on(tt::cpu, 3, count),
                         on_gpu = parameters_on(tt::cuda, 3, count);
  Optimizer expected(on_cpu, options), got(on_gpu, options);
  expected.step();
  got.step();
  check_same(everything(got, on_gpu), everything(expected, on_cpu));
  expected.set_lr(0.03);
  got.set_lr(0.03);
  for (double limit : {0.5, 1e9}) {
    const double norm = expected.step_clipped(limit).template item<double>();
    CHECK(got.step_clipped(limit).template item<double>() == doctest::Approx(norm).epsilon(1e-12));
    CHECK(tt::gradient_norm(tensors_of(on_gpu)) == doctest::Approx(norm).epsilon(1e-12));
  }
  check_same(everything(got, on_gpu), everything(expected, on_cpu));
  CHECK(got.state_dict().at("p7.step").template item<int64_t>() == 0);
  CHECK(got.state_dict().at("p8.step").template item<int64_t>() == 3);
}

}  // namespace

TEST_CASE("optimizer steps with and without clipping equal the CPU's" * test::needs_devices()) {
  check_against_cpu<tt::AdamW>(tt::AdamOptions{.lr = 0.05, .eps = 1e-4, .weight_decay = 0.1},
                               kManyParameters);
  check_against_cpu<tt::Adam>(tt::AdamOptions{.lr = 0.05, .eps = 1e-4, .weight_decay = 0.1});
  check_against_cpu<tt::SGD>(tt::SgdOptions{.lr = 0.1, .weight_decay = 0.1});
  check_against_cpu<tt::SGD>(tt::SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true});
}

TEST_CASE("steps of RMSprop, Adagrad, AMSGrad and Lion equal the CPU's" * test::needs_devices()) {
  check_against_cpu<tt::RMSprop>(tt::RmsPropOptions{.lr = 0.05, .eps = 1e-3, .weight_decay = 0.1});
  check_against_cpu<tt::RMSprop>(tt::RmsPropOptions{.lr = 0.05, .eps = 1e-3, .momentum = 0.9});
  check_against_cpu<tt::RMSprop>(tt::RmsPropOptions{.lr = 0.05, .eps = 0.1, .centered = true});
  check_against_cpu<tt::RMSprop>(
      tt::RmsPropOptions{.lr = 0.05, .eps = 0.1, .weight_decay = 0.1, .momentum = 0.9, .centered = true});
  // With a small eps, the step of a gradient near -0.1 p has either sign, as rounding makes it.
  check_against_cpu<tt::Adagrad>(
      tt::AdagradOptions{.lr = 0.05, .lr_decay = 0.1, .weight_decay = 0.1, .eps = 1e-2}, kManyParameters);
  check_against_cpu<tt::AdamW>(
      tt::AdamOptions{.lr = 0.05, .eps = 1e-4, .weight_decay = 0.1, .amsgrad = true});
  check_against_cpu<tt::Lion>(tt::LionOptions{.lr = 0.05, .weight_decay = 0.1});
}

TEST_CASE("a clipped step with a gradient norm that is not finite changes neither parameters nor counters" *
          test::needs_devices()) {
  const tt::NamedTensors parameters = parameters_on(tt::cuda, 5);
  tt::AdamW optimizer(parameters);
  optimizer.step();
  parameters[4].tensor.grad().fill_(std::nan(""));
  std::vector<std::vector<double>> before;
  for (const auto& [name, tensor] : everything(optimizer, parameters)) before.push_back(values_of(tensor));
  CHECK(std::isnan(optimizer.step_clipped(1).item<double>()));
  size_t i = 0;
  for (const auto& entry : everything(optimizer, parameters)) {
    INFO(entry.first);
    CHECK(values_of(entry.second) == before[i++]);
  }
}

TEST_CASE("a captured optimizer step increments its counter and uses the current learning rate" *
          test::needs_devices()) {
  tt::NamedTensors graph_side = parameters_on(tt::cuda, 9), plain_side = parameters_on(tt::cuda, 9);
  tt::AdamW replayed(graph_side, {.lr = 0.05}), plain(plain_side, {.lr = 0.05});
  replayed.step_clipped(2);
  tt::backend::cuda::Graph graph;
  tt::Tensor norm;
  graph.capture([&] { norm = replayed.step_clipped(2); });
  plain.step_clipped(2);
  for (double lr : {0.05, 0.01, 0.2}) {
    replayed.set_lr(lr);
    plain.set_lr(lr);
    graph.replay();
    CHECK(norm.item<double>() == plain.step_clipped(2).item<double>());
  }
  CHECK(replayed.state_dict().at("p0.step").item<int64_t>() == 4);
  const tt::StateDict a = everything(replayed, graph_side), b = everything(plain, plain_side);
  for (const auto& entry : a) {
    INFO(entry.first);
    // Bit-identical: the order of additions is fixed.
    CHECK(values_of(entry.second) == values_of(b.at(entry.first)));
  }
}
