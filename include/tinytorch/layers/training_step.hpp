// One optimizer step: forward and backward through one or several batches, clip, update.
//
//   const StepReport report = training_step(net, optimizer, batches, loss, step, {.clip_norm = 1});
//
// Several batches give the step of one large batch, in less memory: the gradient of the mean over all samples
// is the sum of the batches' gradients, each weighted by its share of the samples. A last batch may be
// smaller than the others.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/layers/batch_source.hpp>
#include <tinytorch/layers/clip.hpp>
#include <tinytorch/layers/gradient_sum.hpp>
#include <tinytorch/layers/optimizer.hpp>
#include <tinytorch/layers/schedule.hpp>

namespace tinytorch::inline TT_BUILD {

// Mean loss of a batch, a tensor of one element.
using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;
// Mean over the samples of a batch.
using Metric = std::function<double(const Tensor& output, const Tensor& target)>;

// A number that was not measured.
inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

struct StepOptions {
  Schedule schedule{};   // rate by optimizer step; without one the optimizer's rate stays
  double clip_norm = 0;  // largest gradient norm; 0 does not clip
  Metric metric{};       // summed beside the loss, if there is one
};
struct StepReport {
  int64_t samples = 0;
  double loss_sum = 0, metric_sum = 0;  // over samples: a batch's mean times its samples
  double lr = 0;
  double gradient_norm = kNotMeasured;  // before clipping
};

// In this order: the rate of step number `step`, counted from 0; gradients to zero; for each batch, moved to
// the model's device, the loss, and backward() of the loss times the batch's share of all samples; clipping
// by clip_gradient_norm, if asked for; the update. A loss that is not finite ends it with TT-TRAIN-02 before
// the update. `sums`, if given, is cleared at the start, takes the gradients after each backward(), and gives
// back their sum before clipping (gradient_sum.hpp).
inline StepReport training_step(Module& model, Optimizer& optimizer, std::span<const Batch> batches,
                                const Loss& loss, int64_t step, const StepOptions& options = {},
                                GradientSum* sums = nullptr, TT_LOC) {
  StepReport report;
  if (options.schedule) optimizer.set_lr(options.schedule(step), loc);
  report.lr = optimizer.lr();
  optimizer.zero_grad();
  if (sums) sums->clear(loc);
  for (const Batch& batch : batches) report.samples += batch.inputs.size(0);
  for (const Batch& batch : batches) {
    const Batch here = batch.to(model.device());
    const auto count = static_cast<double>(here.inputs.size(0)), total = static_cast<double>(report.samples);
    const Tensor output = model(here.inputs), mean_loss = loss(output, here.targets);
    const double value = mean_loss.item<double>(loc);
    if (!std::isfinite(value)) {
      fail("TT-TRAIN-02",
           "the loss is " + std::to_string(value) + " at step " + std::to_string(step) +
               "\n  hint: lower the learning rate, warm it up, or set clip_norm",
           loc);
    }
    report.loss_sum += value * count;
    if (options.metric) report.metric_sum += options.metric(output, here.targets) * count;
    (count == total ? mean_loss : mean_loss * (count / total)).backward();
    if (sums) sums->add(loc);
  }
  if (sums) sums->give();
  if (options.clip_norm > 0)
    report.gradient_norm = clip_gradient_norm(optimizer.parameters(), options.clip_norm, loc);
  optimizer.step(loc);
  return report;
}

}  // namespace tinytorch::inline TT_BUILD
