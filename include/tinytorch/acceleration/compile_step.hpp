// compile_step(): a training step as one graph: forward pass, loss, backward pass.
//
//   auto step = tt::compile_step(net, optimizer, [](auto& y, auto& t) { return tt::cross_entropy(y, t); });
//   const tt::Tensor loss = step(x, target);      // forward, backward, update
//
// Both passes are one graph, so activations are fused across them, and all intermediate values of the step
// lie in one arena. The gradients are in the arena, too, until the next step overwrites them: clone() one
// that is to be kept. zero_grad() is not needed, and gradients of earlier backward passes do not count. The
// update itself is the optimizer's. The rules for what can be captured, the guards and the second looks are
// those of compile().
#pragma once

#include <memory>
#include <string>
#include <tinytorch/acceleration/batch_sizes.hpp>
#include <tinytorch/acceleration/capture_gradient.hpp>
#include <tinytorch/acceleration/guard.hpp>
#include <tinytorch/acceleration/lower.hpp>
#include <tinytorch/acceleration/signature.hpp>
#include <tinytorch/layers/clip.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/layers/optimizer.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct StepCompileOptions {
  CompileOptions compile{};
  double clip_norm = 0;  // largest norm of all gradients; 0: no clipping
};

class CompiledStep {
 public:
  using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;

  // The model and the optimizer must outlive the step.
  CompiledStep(Module& model, Optimizer& optimizer, Loss loss, StepCompileOptions options = {})
      : CompiledStep(
            optimizer,
            [&model, of = std::move(loss)](const Tensor& x, const Tensor& t) { return of(model(x), t); },
            options) {}
  // `loss_of` is the whole forward pass: from the two arguments of the step to the loss.
  CompiledStep(Optimizer& optimizer, Loss loss_of, StepCompileOptions options = {})
      : CompiledStep(
            optimizer, [of = std::move(loss_of)](const Tensors& x) { return Tensors{of(x[0], x[1])}; },
            options) {}
  // `results_of` takes and gives any number of tensors, and only gradients() can call the step then. The
  // first result is the loss; the others have no gradient.
  CompiledStep(Optimizer& optimizer, TensorFunction results_of, StepCompileOptions options = {})
      : optimizer_(optimizer),
        results_of_(std::move(results_of)),
        options_(options),
        sizes_(options.compile) {}

  // Runs one step, and returns the loss before the update: a tensor of one element without a history.
  Tensor operator()(const Tensor& x, const Tensor& target, TT_LOC) {
    const Tensor loss = gradients({x, target}, loc)[0];
    if (options_.clip_norm > 0) clip_gradient_norm(optimizer_.parameters(), options_.clip_norm, loc);
    optimizer_.step(loc);
    return loss;
  }
  // Runs the forward and the backward pass without the optimizer. Returns the results of the forward pass,
  // without a history; the gradients are in the parameters, without those of earlier passes.
  Tensors gradients(const Tensors& arguments, TT_LOC) {
    for (const Tensor& t : arguments) require_defined("compiled step", loc, t);
    if (eager_.empty()) {
      try {
        return compiled(arguments, loc);
      } catch (const Error& e) {
        if (options_.compile.strict || !refuses_capture(e)) throw;
        eager_ = e.what();
        say_eager("step", eager_);
      }
    }
    return eager(arguments, loc);
  }

  const std::string& eager_reason() const { return eager_; }
  std::vector<VariantReport> reports() const { return reports_of(variants_); }
  std::string report() const { return report_text(reports(), eager_) + sizes_.report(); }
  // The graphs that are replayed, one for each variant. The pointers are valid until the next call.
  std::vector<const OpGraph*> graphs() const {
    std::vector<const OpGraph*> all;
    for (const Variant& v : variants_) all.push_back(&v.step->graph());
    return all;
  }

 private:
  struct Variant {
    CallKey key;
    uint64_t modes = 0;
    int64_t calls = 0;
    OpGraph captured;  // before fusion
    size_t forward_steps = 0, results = 0;
    std::unique_ptr<Executable> step;
    Tensors leaves, gradients;  // of which a gradient is computed
    VariantReport report;
  };

  // The loss, and the other results without their history.
  Tensors forward(const Tensors& x) const {
    Tensors out = results_of_(x);
    for (size_t k = 1; k < out.size(); ++k) out[k] = out[k].detach();
    return out;
  }

  Tensors eager(const Tensors& arguments, Loc loc) {
    optimizer_.zero_grad();
    Tensors out = forward(arguments);
    out[0].backward({}, false, loc);
    out[0] = out[0].detach();
    return out;
  }

  Tensors compiled(const Tensors& arguments, Loc loc) {
    for (size_t k = 0; k < variants_.size(); ++k) {
      Variant& v = variants_[k];
      if (!v.key.matches(arguments)) continue;
      if (v.step->externals_moved()) {
        variants_.erase(variants_.begin() + static_cast<ptrdiff_t>(k));
        break;
      }
      require_apart(v.captured.written, arguments, loc);
      if (must_look_again(v.calls, v.modes, v.key.rehearsed)) return look_again(k, arguments, loc);
      return replay(v, arguments);
    }
    Variant* v = rehearse(arguments, loc);
    if (!v) v = &add_variant(arguments, loc);
    require_apart(v->captured.written, arguments, loc);
    return replay(*v, arguments);
  }

  // Memory for the results of a replay.
  static Tensors results_for(const Variant& v, Device device) {
    Tensors out;
    for (size_t k = 0; k < v.results; ++k) {
      const Spec spec = v.step->result_spec(k);
      out.push_back(empty(spec.shape, spec.dtype, device));
      if (spec.channels_last) out.back().impl()->strides = backend::channels_last_strides(spec.shape);
    }
    return out;
  }
  Tensors replay(Variant& v, const Tensors& arguments) {
    ++v.calls;
    sizes_.use(v);
    Tensors out = results_for(v, arguments[0].device());
    v.step->run(laid_out_as_captured(v.captured, arguments), out);
    for (const Tensor& p : optimizer_.parameters()) p.impl()->grad_state->grad = Tensor();
    for (size_t k = 0; k < v.leaves.size(); ++k) {
      GradState& state = *v.leaves[k].impl()->grad_state;
      state.grad = v.gradients[k];
      state.wide_grad = Tensor();
      v.gradients[k].storage()->bump_version();
    }
    return out;
  }

  // Runs the step itself, and keeps the variant only if the forward pass did what was captured.
  Tensors look_again(size_t k, const Tensors& arguments, Loc loc) {
    optimizer_.zero_grad();
    Captured now = capture([this](const Tensors& x) { return forward(x); }, arguments, loc);
    now.outputs[0].backward({}, false, loc);
    Variant& v = variants_[k];
    auto difference = first_difference(v.captured, v.forward_steps, now.graph);
    if (!difference) difference = other_result(v, arguments, now);
    if (difference) {
      if (++recaptures_ > options_.compile.most_variants) {
        default_generator().set_state(now.graph.random);  // the step is run again, eagerly
        restore(now.graph.written);
        fail("TT-COMPILE-05",
             "compile_step: the model does something else from call to call: " + *difference +
                 "\n  hint: what varies must come in as a tensor",
             loc);
      }
      variants_.erase(variants_.begin() + static_cast<ptrdiff_t>(k));
      sizes_.forget(variants_);
    } else {
      v.modes = mode_changes();
      ++v.calls;
    }
    now.outputs[0] = now.outputs[0].detach();
    return std::move(now.outputs);
  }
  // Replays the step on trial, and describes the first result or gradient that differs from those of the
  // eager call; nullopt if all agree. Gradients stay as they are.
  std::optional<std::string> other_result(Variant& v, const Tensors& arguments, const Captured& now) const {
    const Tensors results = results_for(v, arguments[0].device());
    const ReplayTrial trial(now.graph.written, ReplayTrial::Leave::after);
    v.step->run(laid_out_as_captured(v.captured, arguments), results, now.graph.random);
    Tensors want = trial.wanted(), got = trial.found(), gradients;
    for (size_t k = 0; k < results.size(); ++k) want.push_back(now.outputs[k]), got.push_back(results[k]);
    for (const Tensor& leaf : v.leaves) {
      gradients.push_back(leaf.grad());
      if (!gradients.back().defined()) return "a parameter has no gradient any more";
    }
    const Math math = options_.compile.math;
    if (auto other = first_other_result(want, got, math)) return other;
    return first_other_result(gradients, v.gradients, math, math == Math::fast ? mean_scale(gradients) : 0);
  }

  Variant& add_variant(const Tensors& arguments, Loc loc) {
    if (sizes_.recorded(variants_) >= options_.compile.most_variants) {
      fail("TT-COMPILE-07",
           "compile_step: there are already " + std::to_string(sizes_.recorded(variants_)) +
               " kinds of batches, and this one is " + described(arguments) +
               (variants_.empty()
                    ? std::string()
                    : "\n  guard: " + first_failed_guard(variants_.back().key.arguments, arguments)) +
               "\n  hint: pad to few shapes, or drop the last batch",
           loc);
    }
    const GeneratorUse not_yet;  // the replay, which follows, draws the numbers
    Tensors copies, results;
    for (const Tensor& t : arguments) copies.push_back(t.detach().clone(loc));
    Variant v = new_variant<Recorder>(arguments, copies, results, loc);
    verify(v, copies, results, loc);
    variants_.push_back(std::move(v));
    sizes_.learn(variants_, [&](const Tensors& blanks) { return captured<Rehearsal>(blanks, loc).joint; });
    return variants_.back();
  }
  // A variant for a batch size that was not recorded; null if there is none, so that the call is recorded.
  Variant* rehearse(const Tensors& arguments, Loc loc) {
    Tensors no_results;
    return sizes_.rehearse(variants_, arguments, [&](const Tensors& blanks) {
      return new_variant<Rehearsal>(arguments, blanks, no_results, loc);
    });
  }

  // R: Recorder, or Rehearsal.
  template <class R>
  CapturedGradient captured(const Tensors& copies, Loc loc) {
    return capture_gradient<R>([this](const Tensors& x) { return forward(x); }, copies, loc);
  }
  template <class R>
  Variant new_variant(const Tensors& arguments, const Tensors& copies, Tensors& results, Loc loc) {
    CapturedGradient c = captured<R>(copies, loc);
    if (c.tracked.empty() || c.outputs[0].numel() != 1) {
      fail("TT-GRAD-08",
           "compile_step: the loss must be one element that depends on the parameters, got " +
               c.outputs[0].describe(),
           loc);
    }
    Variant v;
    v.key = key_of_call(arguments);
    v.modes = mode_changes();
    v.forward_steps = static_cast<size_t>(c.forward_steps);
    v.captured = copy_of(c.joint, 0, c.joint.steps.size());
    const auto count = static_cast<ptrdiff_t>(arguments.size());
    v.captured.inputs.assign(c.joint.inputs.begin(), c.joint.inputs.begin() + count);
    v.captured.written = c.joint.written;
    v.report.arguments = described(arguments);
    OpGraph joint = std::move(c.joint);
    GraphValue& start = joint.values[static_cast<size_t>(joint.inputs.back())];  // the loss's gradient: 1
    start.kind = ValueKind::external;
    start.external = full(start.shape, 1, start.dtype, start.device, loc);
    joint.inputs.resize(arguments.size());
    v.results = c.outputs.size();
    std::vector<int> outputs(joint.outputs.begin(), joint.outputs.begin() + std::ssize(c.outputs));
    for (size_t k = 0; k < c.leaves.size(); ++k) {
      const int at = c.gradient_of[arguments.size() + k];
      if (at < 0) continue;
      outputs.push_back(joint.outputs[static_cast<size_t>(at)]);
      v.leaves.push_back(c.leaves[k]);
    }
    joint.outputs = std::move(outputs);
    v.step = lower(std::move(joint), options_.compile, v.report, static_cast<int>(v.results), true);
    for (size_t k = 0; k < v.leaves.size(); ++k) v.gradients.push_back(v.step->resident(v.results + k));
    results = c.outputs;
    return v;
  }
  // Replays the call that was captured: it must give the captured results.
  void verify(const Variant& v, const Tensors& copies, const Tensors& results, Loc loc) const {
    const ReplayTrial trial(v.captured.written, ReplayTrial::Leave::before);
    const Tensors out = results_for(v, copies[0].device());
    v.step->run(copies, out, v.captured.random);
    for (size_t k = 0; k < out.size(); ++k) require_same(results[k], out[k], k, options_.compile.math, loc);
    const Tensors want = trial.wanted(), got = trial.found();
    for (size_t k = 0; k < want.size(); ++k) require_same(want[k], got[k], k, options_.compile.math, loc);
  }

  Optimizer& optimizer_;
  TensorFunction results_of_;
  StepCompileOptions options_;
  std::vector<Variant> variants_;
  BatchSizes<Variant> sizes_;
  int recaptures_ = 0;
  std::string eager_;
};

inline CompiledStep compile_step(Module& model, Optimizer& optimizer, CompiledStep::Loss loss,
                                 StepCompileOptions options = {}) {
  return CompiledStep(model, optimizer, std::move(loss), options);
}
// This overload serves models that compute their loss themselves:
//   auto step = tt::compile_step(optimizer, [&](auto& x, auto& t) { return model.loss(x, t); });
inline CompiledStep compile_step(Optimizer& optimizer, CompiledStep::Loss loss_of,
                                 StepCompileOptions options = {}) {
  return CompiledStep(optimizer, std::move(loss_of), options);
}

}  // namespace tinytorch::inline TT_BUILD
