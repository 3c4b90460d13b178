// One optimizer step: forward and backward passes of one or several batches, clipping, and the update.
//
//   const StepReport report = training_step(net, optimizer, batches, loss, step, {.clip_norm = 1});
//
// Several batches give the step of one large batch in less memory: the gradient of the mean over all samples
// is the sum of the gradients of the batches, each weighted by its fraction of the samples. The last batch
// may be smaller.
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

// The mean loss of a batch, as a tensor of one element.
using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;
// The mean of a metric over the samples of a batch.
using Metric = std::function<double(const Tensor& output, const Tensor& target)>;

// The value of a number that was not measured.
inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

struct StepOptions {
  Schedule schedule{};   // rate by optimizer step; if empty, the optimizer's rate is kept
  double clip_norm = 0;  // largest gradient norm; 0: no clipping
  Metric metric{};       // if given, its sum is reported too
};
struct StepReport {
  int64_t samples = 0;
  double loss_sum = 0, metric_sum = 0;  // sums over samples: the mean of a batch times its number of samples
  double lr = 0;
  double gradient_norm = kNotMeasured;  // before clipping
};

// The steps are, in this order: set the rate of step `step`, counted from 0; set the gradients to zero; for
// each batch, move it to the model's device, compute the loss, and call backward() on the loss times the
// batch's fraction of all samples; clip by clip_gradient_norm if clip_norm > 0; update. A loss that is not
// finite throws TT-TRAIN-02 before the update. `sums`, if given, is cleared at the start, accumulates the
// gradients after each backward(), and gives their sum back before clipping (gradient_sum.hpp).
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
