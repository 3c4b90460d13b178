// A whole training step is captured as a CUDA graph: forward with dropout, backward, clipping and the
// optimizer's update. Replays with new data, a changing learning rate and an advancing step count are
// bit-identical to the same calls without a graph.
#include <memory>
#include <support/device.hpp>
#include <tinytorch/backend/cuda/runtime/graph.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/clip.hpp>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
namespace cuda = tinytorch::backend::cuda;
using test::needs_devices;

namespace {

constexpr int kSteps = 8, kBatch = 16, kIn = 12, kClasses = 5;

struct Run {
  std::vector<std::vector<float>> losses, parameters;
  uint64_t random_blocks = 0;
};

// Trains on the device from a fixed seed. With `graph`, every step is a replay.
template <class MakeOptimizer>
Run train(MakeOptimizer&& make_optimizer, cuda::Graph* graph) {
  tt::manual_seed(11);
  tt::Sequential net(tt::Linear(kIn, 32), tt::ReLU(), tt::Dropout(0.25), tt::Linear(32, kClasses));
  net.to(tt::cuda);
  const auto optimizer = make_optimizer(net.named_parameters());
  const tt::Tensor x = tt::empty({kBatch, kIn}, tt::f32, tt::cuda);
  const tt::Tensor target = tt::empty({kBatch}, tt::i64, tt::cuda);
  tt::Tensor loss;
  const auto step = [&] {
    optimizer->zero_grad();
    loss = tt::cross_entropy(net.forward(x), target);
    loss.backward();
    tt::clip_gradient_norm(net.parameters(), 0.5);
    optimizer->step();
  };
  tt::Generator data(5);
  Run run;
  for (int k = 0; k < kSteps; ++k) {
    tt::Tensor inputs = x, targets = target;
    inputs.copy_(tt::randn({kBatch, kIn}, tt::f32, tt::cpu, data).to(tt::cuda));
    targets.copy_(tt::randint(0, kClasses, {kBatch}, tt::i64, tt::cpu, data).to(tt::cuda));
    optimizer->set_lr(0.01 / (k + 1));
    if (graph && k == 0) graph->capture(step);
    graph ? graph->replay() : step();
    run.losses.push_back(loss.to_vector());
  }
  for (const tt::Tensor& p : net.parameters()) run.parameters.push_back(p.to_vector());
  run.random_blocks = tt::default_generator().state().next_block;
  for (const auto& [name, value] : optimizer->state_dict()) {
    if (name.ends_with(".step")) CHECK(value.template item<int64_t>() == kSteps);
  }
  return run;
}

template <class MakeOptimizer>
void check_replays(MakeOptimizer&& make_optimizer) {
  const Run one_by_one = train(make_optimizer, nullptr);  // also initializes what is created at first use
  cuda::Graph graph;
  const Run replayed = train(make_optimizer, &graph);
  CHECK(graph.nodes() > 5);
  CHECK(one_by_one.losses == replayed.losses);
  CHECK(one_by_one.parameters == replayed.parameters);
  CHECK(one_by_one.random_blocks == replayed.random_blocks);
  CHECK(one_by_one.losses.front() != one_by_one.losses.back());
  tt::manual_seed(0);
}

}  // namespace

TEST_CASE("AdamW with dropout: replays of a captured step are bit-identical to steps" * needs_devices()) {
  check_replays([](const tt::NamedTensors& parameters) {
    return std::make_unique<tt::AdamW>(parameters, tt::AdamOptions{.weight_decay = 0.1});
  });
}

TEST_CASE("SGD with momentum: replays of a captured step are bit-identical to steps" * needs_devices()) {
  check_replays([](const tt::NamedTensors& parameters) {
    return std::make_unique<tt::SGD>(parameters, tt::SgdOptions{.momentum = 0.9});
  });
}
