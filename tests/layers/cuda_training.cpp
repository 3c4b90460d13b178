// Whole training runs on the device `cuda` (a GPU or the emulator): a digits MLP and a convolution net match
// the loss curve of the CPU, repeat bit for bit, do not leak, and run as a CUDA graph (captured_step.cpp adds
// dropout and Adam).
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <support/device.hpp>
#include <support/few.hpp>
#include <tinytorch/backend/cuda/runtime/graph.hpp>
#include <tinytorch/data/digits.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
namespace cuda = tinytorch::backend::cuda;
using test::needs_devices;

namespace {

// The emulator runs one thread at a time, so it takes only as many steps as fit in seconds.
using test::kEmulated;
constexpr int kSteps = kEmulated ? 3 : 100, kLongRun = kEmulated ? 6 : 1000;
constexpr int64_t kBatch = kEmulated ? 6 : 32, kWidth = kEmulated ? 16 : 128, kChannels = kEmulated ? 3 : 8;

// A rounding error that flips a ReLU or the maximum of a pooling window changes the gradient by more than a
// rounding error. In 100 steps of f32, such a net drifts from itself by 0.4 to 5 % if its first weights
// change by 1e-7. So curves are compared in f64, or in f32 for a smooth net, which drifts by 1.3e-6.
enum class Net { mlp, conv, smooth_conv };

tt::Sequential stage(int64_t in, int64_t out) {
  return tt::Sequential(tt::Conv2d(in, out, 3, {.padding = 1}, false), tt::BatchNorm2d(out), tt::ReLU(),
                        tt::MaxPool2d(2));
}
tt::Sequential smooth_stage(int64_t in, int64_t out) {
  return tt::Sequential(tt::Conv2d(in, out, 3, {.padding = 1}, false), tt::BatchNorm2d(out), tt::GELU(),
                        tt::AvgPool2d(2));
}
tt::Sequential make(Net net) {
  tt::manual_seed(7);
  if (net == Net::mlp) {
    return tt::Sequential(tt::Flatten(), tt::Linear(tt::kDigitPixels, kWidth), tt::ReLU(),
                          tt::Linear(kWidth, 10));
  }
  const auto part = net == Net::conv ? stage : smooth_stage;
  return tt::Sequential(part(1, kChannels), part(kChannels, 2 * kChannels), tt::Flatten(),
                        tt::Linear(2 * kChannels * 49, 10));
}

// A net, its data and its optimizer on one device. Each step takes the next batch of 20, cyclically.
class Training {
 public:
  Training(Net net, tt::Device device, tt::DType dtype = tt::f32) : device_(device), model_(make(net)) {
    model_.to(dtype);
    model_.to(device);
    optimizer_ =
        std::make_unique<tt::SGD>(model_.named_parameters(), tt::SgdOptions{.lr = 0.02, .momentum = 0.9});
    const tt::Digits all = tt::digits(20 * kBatch, 3);
    images_ = all.images.to(dtype).to(device);
    labels_ = all.labels.to(device);
    x_ = tt::empty({kBatch, 1, tt::kDigitSide, tt::kDigitSide}, dtype, device);
    target_ = tt::empty({kBatch}, tt::i64, device);
  }
  void load(int step) {
    const int64_t first = step % 20 * kBatch;
    x_.copy_(images_.slice(0, first, first + kBatch));
    target_.copy_(labels_.slice(0, first, first + kBatch));
  }
  void step() {
    optimizer_->zero_grad();
    loss_ = tt::cross_entropy(model_.forward(x_), target_);
    loss_.backward();
    optimizer_->step();
  }
  double loss() const { return loss_.item<double>(); }
  std::vector<double> run(int steps) {
    std::vector<double> curve;
    for (int k = 0; k < steps; ++k) {
      load(k);
      step();
      curve.push_back(loss());
    }
    return curve;
  }
  // Parameters and running statistics.
  std::vector<std::vector<double>> state() const {
    std::vector<std::vector<double>> all;
    for (const auto& entry : model_.state_dict()) {
      all.push_back(entry.second.detach().to(tt::cpu).to(tt::f64).to_vector<double>());
    }
    return all;
  }

 private:
  tt::Device device_;
  tt::Sequential model_;
  std::unique_ptr<tt::SGD> optimizer_;
  tt::Tensor images_, labels_, x_, target_, loss_;
};

// `tolerance` is the relative tolerance of the loss of each step.
void check_curve(Net net, tt::DType dtype, double tolerance) {
  const std::vector<double> expected = Training(net, tt::cpu, dtype).run(kSteps);
  Training one(net, tt::cuda, dtype), two(net, tt::cuda, dtype);
  const std::vector<double> got = one.run(kSteps);
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  for (size_t k = 0; k < got.size(); ++k) {
    CAPTURE(k);
    CAPTURE(got[k]);
    CAPTURE(expected[k]);
    CHECK(std::abs(got[k] - expected[k]) <= tolerance * std::abs(expected[k]));
    worst = std::max(worst, std::abs(got[k] / expected[k] - 1));
  }
  MESSAGE("largest relative difference from the CPU's loss in ", kSteps, " steps: ", worst);
  CHECK(got.front() > 2);                                 // 10 classes: the first loss is about log 10
  if (!kEmulated) CHECK(got.back() < 0.7 * got.front());  // the emulator takes too few steps for this
  CHECK(got != std::vector<double>(got.size(), got.front()));
  CHECK(two.run(kSteps) == got);  // bit-identical
  CHECK(two.state() == one.state());
}

void check_memory(Net net) {
  const test::CachingScope caching;
  Training training(net, tt::cuda);
  training.run(3);  // initializes what is created at first use
  cuda::synchronize();
  const cuda::MemoryStats before = cuda::memory_stats(0);
  for (int k = 0; k < kLongRun; ++k) {
    training.load(k);
    training.step();
  }
  cuda::synchronize();
  const cuda::MemoryStats after = cuda::memory_stats(0);
  CHECK(after.current == before.current);
  CHECK(after.reserved == before.reserved);
  CHECK(after.device_calls == before.device_calls);
  CHECK(after.allocations > before.allocations);  // the steps were counted
  CHECK(std::isfinite(training.loss()));
}

void check_graph(Net net) {
  Training plain(net, tt::cuda), captured(net, tt::cuda);
  plain.load(0);
  plain.step();
  captured.load(0);
  captured.step();  // also initializes what is created at first use
  cuda::Graph graph;
  graph.capture([&] { captured.step(); });
  CHECK(graph.nodes() > 10);
  for (int k = 1; k < kSteps; ++k) {
    CAPTURE(k);
    plain.load(k);
    plain.step();
    captured.load(k);
    graph.replay();
    CHECK(captured.loss() == plain.loss());
  }
  CHECK(captured.state() == plain.state());
}

}  // namespace

TEST_CASE("digits, MLP: the loss curve matches the CPU's, and repeats bit for bit" * needs_devices() *
          test::long_on_emulator()) {
  check_curve(Net::mlp, tt::f32, 1e-4);
}
TEST_CASE("digits, convolution nets: the loss curve matches the CPU's, and repeats bit for bit" *
          needs_devices() * test::long_on_emulator()) {
  check_curve(Net::smooth_conv, tt::f32, 1e-4);
  check_curve(Net::conv, tt::f64, 1e-9);
}

TEST_CASE("a long training run uses no more memory than its third step" * needs_devices() *
          test::long_on_emulator()) {
  check_memory(Net::mlp);
  check_memory(Net::conv);
}

TEST_CASE("replays of a captured step are bit-identical to steps: convolution, batch norm, pooling" *
          needs_devices() * test::long_on_emulator()) {
  check_graph(Net::conv);
}
