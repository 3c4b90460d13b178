// Cases of a training run: steps of optimizers on ten million parameters, and an epoch of a small net.
#pragma once

#include <fmt/ranges.h>
#include <common/case.hpp>
#include <memory>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adagrad.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/lion.hpp>
#include <tinytorch/layers/muon.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/rmsprop.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <vector>

namespace bench {

// Ten vectors, or ten matrices, of a million elements, with gradients.
inline tt::NamedTensors ten_parameters(const Inputs& in, const tt::Shape& shape) {
  tt::NamedTensors parameters;
  for (int i = 0; i < 10; ++i) {
    const auto part = [&](const char* name) {
      return in[name].slice(0, i * 1'000'000, (i + 1) * 1'000'000).reshape(shape).clone();
    };
    Tensor p = part("x");
    p.requires_grad_();
    p.set_grad(part("y"));
    parameters.push_back({"p" + std::to_string(i), p});
  }
  return parameters;
}

// A step of an optimizer. `kind` is the same optimizer in PyTorch, or empty if PyTorch has none.
template <class Optimizer, class Options>
Case step_case(const std::string& name, const Options& options, const std::string& kind,
               const tt::Shape& shape = {1'000'000}) {
  return {
      .name = name,
      .prepare = [=](const Inputs& in) -> Work {
        const auto optimizer = std::make_shared<Optimizer>(ten_parameters(in, shape), options);
        return [optimizer] { optimizer->step(); };
      },
      .n = int64_t{1} << 24,
      .torch = kind.empty() ? "" : fmt::format("optimizer_step({}, x, y, {})", kind, fmt::join(shape, ", "))};
}

inline std::vector<Case> training_cases() {
  // 2048 digits of 28 x 28 in batches of 32: two convolutions, a layer, AdamW.
  const auto epoch = [](const Inputs& in) -> Work {
    constexpr int64_t kImages = 2048, kBatch = 32, kPixels = 28 * 28;
    const Tensor images = in["x"].slice(0, 0, kImages * kPixels).reshape({kImages, 1, 28, 28});
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
  std::vector<Case> all{
      step_case<tt::AdamW>("adamw 10M, fused", tt::AdamOptions{}, "partial(optim.AdamW, fused=True)"),
      step_case<tt::AdamW>("adamw 10M, foreach", tt::AdamOptions{}, "partial(optim.AdamW, foreach=True)"),
      step_case<tt::AdamW>("adamw amsgrad 10M", tt::AdamOptions{.amsgrad = true},
                           "partial(optim.AdamW, amsgrad=True, fused=True)"),
      step_case<tt::SGD>("sgd momentum 10M", tt::SgdOptions{.lr = 0.01, .momentum = 0.9},
                         "partial(optim.SGD, lr=0.01, momentum=0.9, fused=True)"),
      step_case<tt::RMSprop>("rmsprop 10M", tt::RmsPropOptions{}, "optim.RMSprop"),
      step_case<tt::Adagrad>("adagrad 10M", tt::AdagradOptions{}, "partial(optim.Adagrad, fused=True)"),
      step_case<tt::Lion>("lion 10M", tt::LionOptions{}, ""),
      step_case<tt::Muon>("muon 10M", tt::MuonOptions{}, "optim.Muon", {1000, 1000})};
  all.push_back(
      {.name = "digits epoch", .prepare = epoch, .n = int64_t{1} << 22, .torch = "digits_epoch(x)"});
  return all;
}

}  // namespace bench
