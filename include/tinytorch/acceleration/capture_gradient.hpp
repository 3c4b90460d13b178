// Capture of a function together with its derivative.
//
// The function runs once, then the backward pass of its results runs under the same recorder. Derivatives are
// functions of tensors that pass the same gate, so the record is the joint graph of both passes. It is cut
// where the backward pass began: values of the forward graph that backward steps read become results of the
// first part and inputs of the second.
#pragma once

#include <algorithm>
#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/tensor/graph.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct CapturedGradient {
  OpGraph joint;          // inputs: arguments, gradients of results; results: those of f, gradients of leaves
  int forward_steps = 0;  // the first steps of `joint`
  Tensors outputs;        // the results of this run
  Tensors leaves;         // tensors that f uses and that require a gradient: the parameters
  std::vector<int> tracked;  // the results that depend on an argument or leaf with a gradient
  // Positions, in the joint graph's results, of the gradient of each argument, then of each leaf; -1: zero.
  std::vector<int> gradient_of;
};

// The gradients of leaves are set aside, and put back when the C++ scope ends, together with their hooks.
class GradientsAside {
 public:
  explicit GradientsAside(const Tensors& leaves) {
    for (const Tensor& t : leaves) {
      GradState& state = *t.impl()->grad_state;
      held_.push_back({&state, std::move(state.grad), std::move(state.wide_grad), std::move(state.hooks)});
      state.grad = state.wide_grad = Tensor();
      state.hooks.clear();
    }
  }
  ~GradientsAside() {
    for (Held& h : held_) {
      h.state->grad = std::move(h.grad), h.state->wide_grad = std::move(h.wide_grad);
      h.state->hooks = std::move(h.hooks);
    }
  }
  GradientsAside(const GradientsAside&) = delete;
  GradientsAside& operator=(const GradientsAside&) = delete;

 private:
  struct Held {
    GradState* state;
    Tensor grad, wide_grad;
    std::vector<GradHook> hooks;
  };
  std::vector<Held> held_;
};

// Tensors that the recorded function uses and that require a gradient. Throws if one is not a leaf.
inline Tensors leaves_of(const OpGraph& graph, Loc loc) {
  Tensors leaves;
  for (const GraphValue& v : graph.values) {
    if (v.kind != ValueKind::external || !tracks_grad(v.external)) continue;
    if (!v.external.is_leaf()) {
      fail("TT-COMPILE-04",
           "capture: the function uses " + v.external.describe() +
               ", which was computed outside of it and has a history\n  hint: pass it as an argument, or "
               "detach() it",
           loc);
    }
    leaves.push_back(v.external);
  }
  return leaves;
}

// Throws if a result or a value inside the function has a hook, or keeps its gradient.
inline void refuse_hooks(const Tensor& output, Loc loc) {
  for (const auto& node : topological_order(output.impl()->grad_state->producer)) {
    for (const OutputHooks& hooks : node->output_hooks) {
      if (hooks.hooks.empty() && hooks.retain.expired()) continue;
      fail("TT-COMPILE-04",
           "capture: a hook or retain_grad() inside of the function, at '" + std::string(node->op->name()) +
               "', would not see the compiled derivative\n  hint: register hooks on arguments, parameters or "
               "results",
           loc);
    }
  }
}

// Runs f on `inputs`, whose leaves require gradients as the caller wants, and then its derivative with
// gradients of ones. Gradients of parameters are as they were. R as in capture().
template <class R = Recorder>
CapturedGradient capture_gradient(const TensorFunction& f, const Tensors& inputs, TT_LOC) {
  GeneratorUse random;
  R recorder(inputs);
  CapturedGradient out;
  Tensors starts;
  {
    const Recording recording(recorder);
    out.outputs = f(inputs);
  }
  for (const Tensor& t : out.outputs) require_defined("capture", loc, t);
  out.forward_steps = static_cast<int>(recorder.graph().steps.size());
  out.leaves = leaves_of(recorder.graph(), loc);
  for (const Tensor& t : out.outputs) {  // a parameter that is a result, but no operand
    const auto is_t = [&](const Tensor& other) { return other.impl() == t.impl(); };
    if (tracks_grad(t) && t.is_leaf() && std::ranges::none_of(inputs, is_t) &&
        std::ranges::none_of(out.leaves, is_t))
      out.leaves.push_back(t);
  }
  for (size_t k = 0; k < out.outputs.size(); ++k) {
    if (!tracks_grad(out.outputs[k])) continue;
    if (!out.outputs[k].is_leaf()) refuse_hooks(out.outputs[k], loc);  // a leaf: an argument is a result
    out.tracked.push_back(static_cast<int>(k));
    const NoGrad guard;
    starts.push_back(full(out.outputs[k].shape(), 1, out.outputs[k].dtype(), out.outputs[k].device(), loc));
    recorder.add_input(starts.back());
  }
  Tensors results = out.outputs;
  const GradientsAside aside(out.leaves);
  {
    const Recording recording(recorder);
    for (size_t k = 0; k < starts.size(); ++k)
      out.outputs[static_cast<size_t>(out.tracked[k])].backward(starts[k], k + 1 < starts.size(), loc);
  }
  const auto add_gradient = [&](const Tensor& leaf) {
    const Tensor grad = leaf.grad();
    out.gradient_of.push_back(grad.defined() ? static_cast<int>(results.size()) : -1);
    if (grad.defined()) results.push_back(grad);
  };
  for (const Tensor& t : inputs) add_gradient(t);
  for (const Tensor& t : out.leaves) add_gradient(t);
  out.joint = recorder.finish(results, loc);
  random.keep();
  return out;
}

// The two parts of a joint graph.
struct SplitGraph {
  OpGraph forward;   // results: those of f, then the saved values
  OpGraph backward;  // inputs: arguments, saved values, gradients of the tracked results
  int saved = 0;     // number of saved values
  std::vector<bool> reads_argument, reads_leaf;  // whether backward steps read their elements
};

inline OpGraph copy_of(const OpGraph& graph, size_t first, size_t last) {
  OpGraph part;
  part.values = graph.values;
  part.random = graph.random, part.random_blocks = graph.random_blocks;
  for (GraphValue& v : part.values) v.step = -1;
  for (size_t s = first; s < last; ++s) {
    GraphStep step = copy_of(graph.steps[s]);
    for (const int v : step.outputs) {
      int& made = part.values[static_cast<size_t>(v)].step;
      if (made < 0) made = static_cast<int>(s - first);
    }
    part.steps.push_back(std::move(step));
  }
  return part;
}

inline SplitGraph split(const CapturedGradient& captured, size_t arguments) {
  const OpGraph& joint = captured.joint;
  const auto cut = static_cast<size_t>(captured.forward_steps);
  // A value of the forward pass keeps its elements until the backward pass, which autograd checks.
  SplitGraph out{copy_of(joint, 0, cut), copy_of(joint, cut, joint.steps.size()), 0, {}, {}};
  out.forward.written = joint.written;
  const size_t results = captured.outputs.size();
  out.forward.inputs.assign(joint.inputs.begin(), joint.inputs.begin() + static_cast<ptrdiff_t>(arguments));
  out.forward.outputs.assign(joint.outputs.begin(), joint.outputs.begin() + static_cast<ptrdiff_t>(results));
  out.backward.inputs = out.forward.inputs;
  out.backward.outputs.assign(joint.outputs.begin() + static_cast<ptrdiff_t>(results), joint.outputs.end());

  std::vector<bool> read(joint.values.size(), false);  // by backward steps, or a result of them; roots
  for (const GraphStep& s : out.backward.steps) {
    for (const int v : s.inputs) {
      if (v >= 0) read[static_cast<size_t>(joint.root(v))] = true;
    }
  }
  for (const int v : out.backward.outputs) read[static_cast<size_t>(joint.root(v))] = true;
  for (size_t v = 0; v < joint.values.size(); ++v) {
    const GraphValue& x = joint.values[v];
    const bool from_forward =
        x.kind == ValueKind::computed && x.step >= 0 && static_cast<size_t>(x.step) < cut;
    if (!from_forward || !read[v]) continue;
    out.forward.outputs.push_back(static_cast<int>(v));
    out.backward.inputs.push_back(static_cast<int>(v));
    out.backward.values[v].kind = ValueKind::input;
    ++out.saved;
  }
  out.backward.inputs.insert(out.backward.inputs.end(),
                             joint.inputs.begin() + static_cast<ptrdiff_t>(arguments), joint.inputs.end());
  for (size_t k = 0; k < arguments; ++k)
    out.reads_argument.push_back(read[static_cast<size_t>(joint.inputs[k])]);
  for (const Tensor& leaf : captured.leaves) {
    bool reads = false;
    for (size_t v = 0; v < joint.values.size(); ++v) {
      const GraphValue& x = joint.values[v];
      reads = reads || (x.kind == ValueKind::external && x.external.impl() == leaf.impl() && read[v]);
    }
    out.reads_leaf.push_back(reads);
  }
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
