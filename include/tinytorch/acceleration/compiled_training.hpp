// compiled_training_step(): the option by which a Trainer captures its passes once, and then replays them.
//
//   tt::Trainer trainer(net, optimizer, loader, loss, {.epochs = 5, .step = tt::compiled_training_step()});
//
// Losses, metrics and weights have the bits of training_step(), up to the sign of zeros of gradients that are
// summed over several batches. A batch of another shape, such as the last one, is captured as another
// variant; after three batch sizes, others are replayed without a capture (batch_sizes.hpp). What cannot be
// captured runs eagerly, with one message to stderr, or throws if `strict`. The rules are those of
// compile_step().
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <tinytorch/acceleration/compile_step.hpp>
#include <tinytorch/layers/trainer.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD {

// The compiled passes of one model, optimizer and loss; copies share them. Called with another model or
// optimizer, or the first time with several batches in a step, it captures anew.
class CompiledTrainingStep {
 public:
  explicit CompiledTrainingStep(CompileOptions options = {}) : state_(std::make_shared<State>()) {
    state_->options = options;
  }

  // Makes the optimizer step that training_step() makes. Throws TT-TRAIN-02 before the update if a loss is
  // not finite.
  StepReport operator()(Module& model, Optimizer& optimizer, std::span<const Batch> batches, const Loss& loss,
                        int64_t step, const StepOptions& options = {}, GradientSum* sums = nullptr,
                        TT_LOC) const {
    StepReport report;
    if (options.schedule) optimizer.set_lr(options.schedule(step), loc);
    report.lr = optimizer.lr();
    optimizer.zero_grad();
    if (batches.size() > 1 && !sums) sums = sums_of(optimizer, loc);
    if (sums) sums->clear(loc);
    for (const Batch& batch : batches) report.samples += batch.inputs.size(0);
    CompiledStep& passes = passes_of(model, optimizer, loss);
    for (const Batch& batch : batches) {
      const Batch here = batch.to(model.device());
      const auto count = static_cast<double>(here.inputs.size(0)),
                 total = static_cast<double>(report.samples);
      Tensors arguments{here.inputs, here.targets};
      if (count != total) arguments.push_back(full({}, count / total, DType::f64, model.device(), loc));
      const Tensors results = passes.gradients(arguments, loc);  // weighted loss, mean loss, output
      const double value = results[1].item<double>(loc);
      if (!std::isfinite(value)) {
        fail("TT-TRAIN-02",
             "the loss is " + std::to_string(value) + " at step " + std::to_string(step) +
                 "\n  hint: lower the learning rate, warm it up, or set clip_norm",
             loc);
      }
      report.loss_sum += value * count;
      if (options.metric) report.metric_sum += options.metric(results[2], here.targets) * count;
      if (sums) sums->add(loc);
    }
    if (sums) sums->give();
    if (options.clip_norm > 0)
      report.gradient_norm = clip_gradient_norm(optimizer.parameters(), options.clip_norm, loc);
    optimizer.step(loc);
    return report;
  }

  // Why the passes run eagerly; empty if they are replayed, or were not called yet.
  std::string eager_reason() const { return state_->passes ? state_->passes->eager_reason() : ""; }
  std::vector<VariantReport> reports() const {
    return state_->passes ? state_->passes->reports() : std::vector<VariantReport>();
  }
  std::string report() const { return report_text(reports(), eager_reason()); }

 private:
  struct State {
    CompileOptions options;
    const Module* model = nullptr;
    const Optimizer* optimizer = nullptr;
    std::unique_ptr<CompiledStep> passes;
    std::optional<GradientSum> sums;
  };

  CompiledStep& passes_of(Module& model, Optimizer& optimizer, const Loss& loss) const {
    State& state = *state_;
    if (state.passes && state.model == &model && state.optimizer == &optimizer) return *state.passes;
    const TensorFunction results_of = [&model, loss](const Tensors& x) {
      const Tensor output = model(x[0]), mean = loss(output, x[1]);
      const Tensor weighted = x.size() > 2 ? mean * x[2].to(mean.dtype()) : mean;
      return Tensors{weighted, mean, output};
    };
    state.model = &model, state.optimizer = &optimizer;
    state.passes =
        std::make_unique<CompiledStep>(optimizer, results_of, StepCompileOptions{.compile = state.options});
    return *state.passes;
  }
  // Replays overwrite each other's gradients, so the sum needs memory of its own.
  GradientSum* sums_of(Optimizer& optimizer, Loc loc) const {
    State& state = *state_;
    if (!state.sums || state.optimizer != &optimizer) state.sums.emplace(optimizer.parameters(), loc);
    return &*state.sums;
  }

  std::shared_ptr<State> state_;
};

inline CompiledTrainingStep compiled_training_step(CompileOptions options = {}) {
  return CompiledTrainingStep(options);
}

}  // namespace tinytorch::inline TT_BUILD
