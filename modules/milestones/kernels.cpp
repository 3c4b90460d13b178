// Custom kernels (2024): the multilayer perceptron is trained on the device `cuda`, by kernels written for
// it, and the steps must equal those on the CPU. FlashAttention (Dao et al., 2022) and llm.c (Karpathy, 2024)
// showed that the memory traffic of a step determines its time.
//
// On a GPU it prints the time of each part of a step; on the emulator (-DTINYTORCH_WITH_CUDA=SIM) it prints
// the memory traffic. A sector has 32 bytes, and neighbouring threads that read neighbouring numbers share
// sectors. With TINYTORCH_SIM_COUNT=1 there is a line for each kernel.
#include <chrono>
#include <tinytorch/data/digits.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/tensor/ops.hpp>
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/emulator.hpp>
#endif

#include "gates.hpp"

namespace tt = tinytorch;
namespace cuda = tinytorch::backend::cuda;
using milestone::Numbers;

constexpr int64_t kImages = 16, kHidden = 32;
constexpr int kSteps = 2;
constexpr double kRate = 1e-3;

// Runs a part of a step and prints its time or its memory traffic.
template <class Part>
void measure(const char* name, Part&& part) {
#if TINYTORCH_CUDA_SIM
  cuda::sim::clear_counts();
  cuda::sim::set_counting(true);
  part();
  cuda::sim::set_counting(false);
  std::printf("%-8s", name);
  using Kernel = cuda::sim::KernelCounts;
  for (const auto count : {&Kernel::launches, &Kernel::barriers, &Kernel::bytes_read, &Kernel::bytes_written,
                           &Kernel::sectors, &Kernel::ideal_sectors}) {
    uint64_t sum = 0;
    for (const Kernel& kernel : cuda::sim::counts()) sum += kernel.*count;
    std::printf("  %13s", std::to_string(sum).c_str());
  }
  std::printf("\n");
#else
  cuda::synchronize();
  const auto began = std::chrono::steady_clock::now();
  part();
  cuda::synchronize();
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - began;
  std::printf("%-8s  %8.1f us\n", name, time.count());
#endif
}

// A network whose initial weights do not depend on the device.
tt::Sequential seeded_network() {
  tt::manual_seed(2024);
  return tt::Sequential(tt::Flatten(), tt::Linear(784, kHidden), tt::GELU(), tt::Linear(kHidden, 10));
}

// The first steps on a device, on one batch, and their distance from the reference in double.
struct Training {
  tt::Tensor images, labels, loss;
  tt::Sequential model = seeded_network();
  tt::NamedTensors parameters;
  std::vector<Numbers> before;
  std::unique_ptr<tt::AdamW> optimizer;
  double distance_from_hand = 0;

  explicit Training(tt::Device device) {
    const tt::Digits digits = tt::digits(kImages, 1);
    images = digits.images.to(device), labels = digits.labels.to(device);
    model.to(device);
    parameters = model.named_parameters();
    before = weights();
    optimizer = std::make_unique<tt::AdamW>(parameters, tt::AdamOptions{.lr = kRate, .weight_decay = 0.01});
    distance_from_hand = milestone::distance_from_hand(
        *optimizer, parameters, [&] { return forward(); }, milestone::AdamWByHand{kRate}, kSteps);
  }
  tt::Tensor forward() { return loss = tt::cross_entropy(model(images), labels); }

  std::vector<Numbers> weights() const { return milestone::values_of(parameters); }
  tt::NamedTensors gradients() const {
    tt::NamedTensors all;
    for (const tt::NamedTensor& p : parameters) all.push_back({p.name, p.tensor.grad()});
    return all;
  }
  bool is_on(tt::Device device) const {
    bool on = loss.device() == device;
    for (const tt::NamedTensor& p : parameters) on = on && p.tensor.device() == device;
    for (const tt::NamedTensor& g : gradients()) on = on && g.tensor.device() == device;
    return on;
  }
};

// The largest |a - b| of a parameter, as a share of |c|.
double distance(const std::vector<Numbers>& a, const std::vector<Numbers>& b, const std::vector<Numbers>& c) {
  double worst = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    worst =
        milestone::larger(worst, milestone::norm(milestone::difference(a[k], b[k])) / milestone::norm(c[k]));
  }
  return worst;
}

int main() {
  if (!cuda::is_available()) {
    std::fprintf(stderr,
                 "This milestone needs the device `cuda`. Without a GPU: cmake -B build-sim "
                 "-DTINYTORCH_WITH_CUDA=SIM\n");
    return 2;
  }
  return milestone::run([](milestone::Gates& gates) {
    cuda::use_blas(false);  // matrix products use the library's own kernel, too
    const Training on_cpu(tt::cpu), again(tt::cuda);
    Training on_cuda(tt::cuda);
    const double loss = on_cuda.loss.item<double>(), expected_loss = on_cpu.loss.item<double>();
    const std::vector<Numbers> weights = on_cuda.weights(), expected_weights = on_cpu.weights();
    const std::vector<Numbers> gradients = milestone::values_of(on_cuda.gradients());
    const std::vector<Numbers> expected_gradients = milestone::values_of(on_cpu.gradients());
    std::vector<Numbers> way;
    for (size_t k = 0; k < weights.size(); ++k) {
      way.push_back(milestone::difference(expected_weights[k], on_cpu.before[k]));
    }

#if TINYTORCH_CUDA_SIM
    std::printf("%-8s  %13s  %13s  %13s  %13s  %13s  %13s\n", "emulator", "launches", "barriers",
                "bytes read", "bytes written", "sectors", "sectors ideal");
#else
    std::printf("%s\n", cuda::properties(0).name.c_str());
#endif
    measure("forward", [&] { on_cuda.forward(); });
    measure("backward", [&] { on_cuda.loss.backward(); });
    measure("AdamW", [&] { on_cuda.optimizer->step(); });

    gates.check("parameters, gradients and loss are on the device", again.is_on(tt::cuda), "cuda", "another");
    gates.gradients_arrived(again.parameters);
    gates.at_most("the loss equals the CPU's", std::abs(loss - expected_loss) / expected_loss, 1e-5);
    gates.at_most("the gradients equal the CPU's",
                  distance(gradients, expected_gradients, expected_gradients), 1e-4);
    gates.at_most("the steps equal the CPU's", distance(weights, expected_weights, way), 1e-3);
    gates.at_most("steps of AdamW equal the reference in double", on_cuda.distance_from_hand, 1e-3);
    gates.check("a second run gives the same bits",
                again.weights() == weights && milestone::values_of(again.gradients()) == gradients,
                "the same", "others");
  });
}
