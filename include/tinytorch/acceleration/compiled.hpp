// compile(): a function of tensors that is captured once and then replayed.
//
//   auto f = tt::compile([&](const tt::Tensor& x) { return net(x); });
//   tt::Tensor y = f(x);                // the first call captures, fuses and plans; later calls replay
//   std::puts(f.report().c_str());
//
// A call is replayed if its arguments have the dtypes, devices, shapes, strides and needs of gradients of an
// earlier call, and if no module has changed its mode; else it is captured as another variant. After three
// variants that differ in the batch size alone, other batch sizes are replayed without a capture
// (batch_sizes.hpp). After `most_variants` of them, the function runs eagerly. Derivatives work as usual:
// y.backward() replays a compiled derivative.
//
// The rule for the function: what it does may depend on its arguments' shapes and on the modes of modules,
// but on nothing else that changes. Values that vary come in as tensors. The second and third call and every
// 1024th run eagerly under a recorder; if the function did something else than the capture, it is captured
// again (TT-COMPILE-05). A function that cannot be captured runs eagerly, with one message to stderr, or
// throws if `strict`: it reads elements on the host, or writes in place.
#pragma once

#include <cstdlib>
#include <string>
#include <tinytorch/acceleration/batch_sizes.hpp>
#include <tinytorch/acceleration/compiled_call.hpp>
#include <tinytorch/acceleration/guard.hpp>
#include <tinytorch/acceleration/lower.hpp>
#include <tinytorch/acceleration/signature.hpp>
#include <tinytorch/layers/module.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

class CompiledFunction {
 public:
  explicit CompiledFunction(TensorFunction f, CompileOptions options = {})
      : f_(std::move(f)), options_(options), sizes_(options) {}

  Tensors operator()(const Tensors& arguments, TT_LOC) {
    for (const Tensor& t : arguments) require_defined("compiled function", loc, t);
    if (!eager_.empty() || active_recorder()) return f_(arguments);  // a part of another capture
    try {
      Variant* known = find(arguments);
      if (known && known->plan->forward->externals_moved()) {
        variants_.erase(variants_.begin() + (known - variants_.data()));
        known = nullptr;
      }
      if (known) require_apart(known->captured.written, arguments, loc);
      if (known && must_look_again(known->calls, known->modes, known->key.rehearsed))
        return look_again(*known, arguments, loc);
      if (!known) {
        known = rehearse(arguments, loc);
        if (!known) known = &add_variant(arguments, loc);
        require_apart(known->captured.written, arguments, loc);
      }
      return replay(*known, arguments, loc);
    } catch (const Error& e) {
      if (options_.strict || !refuses_capture(e)) throw;
      eager_ = e.what();
      say_eager("function", eager_);
    }
    return f_(arguments);
  }

  // Why the function runs eagerly; empty if it is replayed.
  const std::string& eager_reason() const { return eager_; }
  std::vector<VariantReport> reports() const { return reports_of(variants_); }
  std::string report() const { return report_text(reports(), eager_) + sizes_.report(); }
  // The graphs that are replayed: for each variant, the graph of its forward pass and that of its derivative.
  // The pointers are valid until the next call.
  std::vector<const OpGraph*> graphs() const {
    std::vector<const OpGraph*> all;
    for (const Variant& v : variants_) {
      all.push_back(&v.plan->forward->graph());
      if (v.plan->backward) all.push_back(&v.plan->backward->graph());
    }
    return all;
  }

 private:
  struct Variant {
    CallKey key;
    uint64_t modes = 0;  // mode_changes() when it was last known to be right
    int64_t calls = 0;
    OpGraph captured;  // before fusion: what a later capture is compared with
    size_t forward_steps = 0;
    std::shared_ptr<CallPlan> plan;
    VariantReport report;
  };

  Variant* find(const Tensors& arguments) {
    for (Variant& v : variants_) {
      if (v.key.matches(arguments)) return &v;
    }
    return nullptr;
  }
  Tensors replay(Variant& v, const Tensors& arguments, Loc loc) {
    ++v.calls;
    sizes_.use(v);
    Tensors in = laid_out_as_captured(v.captured, arguments);
    for (const Tensor& t : v.plan->leaves) in.push_back(t);
    const GeneratorState random = default_generator().state();
    default_generator().reserve(v.plan->forward->random_blocks());
    Tensors out = apply_all(CompiledCall(v.plan, random), in, loc);
    out.resize(v.plan->results);
    for (size_t k = 0; k < out.size(); ++k) {
      const bool tracked = std::ranges::find(v.plan->tracked, static_cast<int>(k)) != v.plan->tracked.end();
      if (!tracked && tracks_grad(out[k])) out[k] = out[k].detach();
    }
    if (verifies()) compare_with_eager(out, arguments, random, loc);
    return out;
  }

  // Runs the function itself, and keeps the variant only if it did what was captured.
  Tensors look_again(Variant& v, const Tensors& arguments, Loc loc) {
    Captured now = capture(f_, arguments, loc);
    auto difference = first_difference(v.captured, v.forward_steps, now.graph);
    if (!difference) {
      const Tensors in = laid_out_as_captured(v.captured, arguments);
      const ReplayTrial trial(now.graph.written, ReplayTrial::Leave::after);
      Tensors want = now.outputs, got = repeat(v, in, now.graph.random, loc);
      for (const Tensor& t : trial.wanted()) want.push_back(t);
      for (const Tensor& t : trial.found()) got.push_back(t);
      difference = first_other_result(want, got, options_.math);
    }
    if (difference) {
      variants_.erase(variants_.begin() + (&v - variants_.data()));
      sizes_.forget(variants_);
      ++recaptures_;
      last_difference_ = *difference;
      if (recaptures_ > options_.most_variants) {
        default_generator().set_state(now.graph.random);  // the function is run again, eagerly
        restore(now.graph.written);
        fail("TT-COMPILE-05",
             "compile: the function does something else from call to call: " + last_difference_ +
                 "\n  hint: what varies must come in as a tensor, or must decide which compiled function is "
                 "called",
             loc);
      }
    } else {
      v.modes = mode_changes();
      ++v.calls;
    }
    return std::move(now.outputs);
  }

  Variant& add_variant(const Tensors& arguments, Loc loc) {
    if (sizes_.recorded(variants_) >= options_.most_variants) {
      std::string kinds;
      for (const Variant& v : variants_) kinds += "\n    " + v.report.arguments;
      fail("TT-COMPILE-07",
           "compile: there are already " + std::to_string(sizes_.recorded(variants_)) +
               " kinds of arguments:" + kinds +
               (variants_.empty()
                    ? std::string()
                    : "\n  guard: " + first_failed_guard(variants_.back().key.arguments, arguments)) +
               "\n  hint: pad to few shapes, or raise most_variants",
           loc);
    }
    const GeneratorUse not_yet;  // the call itself, which follows, draws the numbers
    Tensors copies;
    for (const Tensor& t : arguments) {
      copies.push_back(t.detach().clone(loc));
      if (grad_enabled() && tracks_grad(t)) copies.back().requires_grad_();
    }
    Tensors results;
    Variant v = new_variant<Recorder>(arguments, copies, results, loc);
    verify(v, copies, results, loc);
    variants_.push_back(std::move(v));
    sizes_.learn(variants_, [&](const Tensors& blanks) -> OpGraph {
      if (grad_enabled()) return std::move(capture_gradient<Rehearsal>(f_, blanks, loc).joint);
      return std::move(capture<Rehearsal>(f_, blanks, loc).graph);
    });
    return variants_.back();
  }
  // A variant for a batch size that was not recorded; null if there is none, so that the call is recorded.
  Variant* rehearse(const Tensors& arguments, Loc loc) {
    Tensors no_results;
    return sizes_.rehearse(variants_, arguments, [&](const Tensors& blanks) {
      return new_variant<Rehearsal>(arguments, blanks, no_results, loc);
    });
  }

  // R: Recorder, or Rehearsal. `copies` are what f_ gets in the place of the arguments.
  template <class R>
  Variant new_variant(const Tensors& arguments, const Tensors& copies, Tensors& results, Loc loc) {
    Variant v;
    v.key = key_of_call(arguments);
    v.modes = mode_changes();
    v.plan = std::make_shared<CallPlan>();
    v.plan->arguments = arguments.size();
    v.report.arguments = described(arguments);
    results = grad_enabled() ? with_derivative<R>(v, copies, loc) : without_derivative<R>(v, copies, loc);
    return v;
  }
  template <class R>
  Tensors without_derivative(Variant& v, const Tensors& copies, Loc loc) {
    Captured c = capture<R>(f_, copies, loc);
    v.forward_steps = c.graph.steps.size();
    v.captured = copy_of(c.graph, 0, v.forward_steps);
    v.captured.inputs = c.graph.inputs;
    v.captured.written = c.graph.written;
    v.plan->results = c.outputs.size();
    v.plan->reads_operand.assign(copies.size(), false);
    v.plan->forward = executable(std::move(c.graph), v, INT_MAX);
    return c.outputs;
  }
  template <class R>
  Tensors with_derivative(Variant& v, const Tensors& copies, Loc loc) {
    CapturedGradient c = capture_gradient<R>(f_, copies, loc);
    v.forward_steps = static_cast<size_t>(c.forward_steps);
    SplitGraph parts = split(c, copies.size());
    CallPlan& plan = *v.plan;
    plan.results = c.outputs.size();
    plan.tracked = c.tracked;
    plan.forward = executable(std::move(parts.forward), v, static_cast<int>(plan.results));
    if (!c.tracked.empty()) {
      plan.leaves = c.leaves;
      for (const int k : c.gradient_of)
        plan.gradient_of.push_back(k < 0 ? -1 : k - static_cast<int>(plan.results));
      plan.reads_operand = parts.reads_argument;
      plan.reads_operand.insert(plan.reads_operand.end(), parts.reads_leaf.begin(), parts.reads_leaf.end());
      plan.backward = executable(std::move(parts.backward), v, INT_MAX);
    } else {
      plan.reads_operand.assign(copies.size(), false);
    }
    v.captured = std::move(c.joint);
    return c.outputs;
  }

  std::unique_ptr<Executable> executable(OpGraph graph, Variant& v, int results) {
    v.plan->flops += graph.flops();
    return lower(std::move(graph), options_, v.report, results);
  }

  // Replays a call with random numbers from `random` on, and without a history.
  static Tensors repeat(const Variant& v, Tensors in, GeneratorState random, Loc loc) {
    const NoGrad guard;
    for (const Tensor& t : v.plan->leaves) in.push_back(t);
    Tensors out = apply_all(CompiledCall(v.plan, random), in, loc);
    out.resize(v.plan->results);
    return out;
  }
  // Replays the call that was captured: its results must have the same bits.
  void verify(const Variant& v, const Tensors& copies, const Tensors& results, Loc loc) {
    const ReplayTrial trial(v.captured.written, ReplayTrial::Leave::before);
    Tensors want = results, got = repeat(v, copies, v.captured.random, loc);
    for (const Tensor& t : trial.wanted()) want.push_back(t);
    for (const Tensor& t : trial.found()) got.push_back(t);
    for (size_t k = 0; k < want.size(); ++k) require_same(want[k], got[k], k, options_.math, loc);
  }
  void compare_with_eager(const Tensors& out, const Tensors& arguments, GeneratorState random,
                          Loc loc) const {
    const NoGrad guard;
    default_generator().set_state(random);  // the function draws the same numbers again
    const Tensors want = f_(arguments);
    for (size_t k = 0; k < want.size(); ++k) require_same(want[k], out[k], k, options_.math, loc);
  }
  // TINYTORCH_COMPILE_VERIFY=1: every replay is compared with the function itself.
  static bool verifies() {
    static const bool on = [] {
      const char* const text = std::getenv("TINYTORCH_COMPILE_VERIFY");
      return text && std::string(text) == "1";
    }();
    return on;
  }

  TensorFunction f_;
  CompileOptions options_;
  std::vector<Variant> variants_;
  BatchSizes<Variant> sizes_;
  int recaptures_ = 0;
  std::string eager_, last_difference_;
};

// A compiled function with the arguments and the result of the original one: Tensor or Tensors.
template <class F>
class Compiled {
 public:
  Compiled(F f, CompileOptions options) : function_(adapt(std::move(f)), options) {}

  template <class... Args>
  auto operator()(const Args&... arguments) {
    if constexpr (std::is_invocable_v<F&, const Tensors&> && (std::is_same_v<Args, Tensors> && ...)) {
      return result<std::invoke_result_t<F&, const Tensors&>>(function_(arguments...));
    } else {
      static_assert((std::is_convertible_v<const Args&, const Tensor&> && ...),
                    "the arguments of a compiled function are tensors, or one list of tensors");
      return result<std::invoke_result_t<F&, const Args&...>>(function_(Tensors{arguments...}));
    }
  }
  std::string report() const { return function_.report(); }
  std::vector<VariantReport> reports() const { return function_.reports(); }
  std::vector<const OpGraph*> graphs() const { return function_.graphs(); }
  const std::string& eager_reason() const { return function_.eager_reason(); }

 private:
  template <class R>
  static R result(Tensors out) {
    if constexpr (std::is_same_v<R, Tensor>) {
      return out[0];
    } else {
      static_assert(std::is_same_v<R, Tensors>, "a compiled function returns a Tensor, or Tensors");
      return out;
    }
  }
  template <class R>
  static Tensors list(R r) {
    if constexpr (std::is_same_v<R, Tensor>) {
      return Tensors{std::move(r)};
    } else {
      return r;
    }
  }
  static TensorFunction adapt(F f) {
    auto shared = std::make_shared<F>(std::move(f));
    return [shared](const Tensors& x) -> Tensors {
      F& g = *shared;
      if constexpr (std::is_invocable_v<F&, const Tensors&>) {
        return list(g(x));
      } else if constexpr (std::is_invocable_v<F&, const Tensor&>) {
        return list(g(x[0]));
      } else if constexpr (std::is_invocable_v<F&, const Tensor&, const Tensor&>) {
        return list(g(x[0], x[1]));
      } else if constexpr (std::is_invocable_v<F&, const Tensor&, const Tensor&, const Tensor&>) {
        return list(g(x[0], x[1], x[2]));
      } else {
        return list(g(x[0], x[1], x[2], x[3]));
      }
    };
  }

  CompiledFunction function_;
};

template <class F>
Compiled<F> compile(F f, CompileOptions options = {}) {
  return Compiled<F>(std::move(f), options);
}

}  // namespace tinytorch::inline TT_BUILD
