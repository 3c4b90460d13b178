// grad(): gradients as results, which may be differentiated again (double backward).
//
//   Tensor y = tt::sum(net(x));
//   Tensor g = tt::grad(y, {x}, {.create_graph = true})[0];  // dy/dx, as a function of x and the weights
//   tt::square(tt::norm(g) - 1).backward();                  // a gradient penalty
//
// With create_graph the pass runs while recording is on. Saved tensors become parts of the graph again: each
// gets the history of the operand or result that it is a copy of, so that derivatives are recorded as
// functions of them. A node whose vjp is a fused kernel is first computed again by operations that have
// derivatives of their own (PrimitiveBase::composed). What cannot be differentiated again is recorded as an
// operation without a derivative, and the second pass throws TT-GRAD-05 with its name if it reaches it.
// Without create_graph nothing is recorded, and backward() without these options does not use this file.
#pragma once

#include <optional>
#include <tinytorch/autograd/engine.hpp>

namespace tinytorch::inline TT_BUILD {

struct GradOptions {
  Tensor gradient{};                   // of the result; undefined: 1, and the result must have one element
  std::optional<bool> retain_graph{};  // by default, create_graph
  bool create_graph = false;           // gradients can be differentiated
  bool allow_unused = false;  // an input that the result does not depend on gets an undefined gradient
};

struct BackwardOptions {
  Tensor gradient{};
  std::optional<bool> retain_graph{};
  bool create_graph = false;
};

// The gradients of `result` with respect to `inputs`, one each. Inputs are leaves, or tensors from which the
// result was computed. Only nodes between them are visited, and grad() of leaves and their hooks stay as they
// are. Throws TT-GRAD-01 if an input does not require a gradient or the result does not depend on it.
TT_API Tensors grad(const Tensor& result, const Tensors& inputs, const GradOptions& options = {}, TT_LOC);
inline Tensors grad(const Tensor& result, const Tensor& input, const GradOptions& options = {}, TT_LOC) {
  return grad(result, Tensors{input}, options, loc);
}

// backward() with named options: backward(loss, {.create_graph = true}). With create_graph, grad() of the
// leaves has a history that refers to the leaves. Such a cycle is freed by zero_grad(), so grad() is the
// better choice where the gradients are wanted only once.
template <std::same_as<BackwardOptions> Options = BackwardOptions>
void backward(const Tensor& result, const Options& options, TT_LOC);
TT_API void backward_with(const Tensor& result, const BackwardOptions& options, Loc loc);

template <std::same_as<BackwardOptions> Options>
void backward(const Tensor& result, const Options& options, Loc loc) {
  backward_with(result, options, loc);
}
template <std::same_as<BackwardOptions> Options>
void Tensor::backward(const Options& options, Loc loc) const {
  backward_with(*this, options, loc);
}

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <tinytorch/tensor/ops/shape.hpp>

namespace tinytorch::inline TT_BUILD {

// x itself, as the result of a new node: a place where a partial derivative ends.
struct Passage final : ViewPrimitive<Passage> {
  static constexpr const char* kName = "passage";
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  Tensor view(const Tensor& x) const override { return alias(x, x.shape(), x.strides(), x.offset()); }
  Tensors vjp(const Saved&, const Tensors& g) const override { return {g[0]}; }
};

// The first input, which depends on the second one in a way that the graph does not know.
struct LostDependence final : ViewPrimitive<LostDependence> {
  static constexpr const char* kName = "derivative";
  std::string of;
  explicit LostDependence(std::string op) : of(std::move(op)) {}
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  Tensor view(const Tensor& x) const override { return alias(x, x.shape(), x.strides(), x.offset()); }
  Tensors vjp(const Saved&, const Tensors&) const override { fail_no_derivative(of + "_grad"); }
};

// A saved value with the history `state`.
inline Tensor with_history(const Tensor& value, std::shared_ptr<GradState> state) {
  Tensor t = alias(value, value.shape(), value.strides(), value.offset());
  t.impl()->grad_state = std::move(state);
  return t;
}
inline std::shared_ptr<GradState> history_of(const std::shared_ptr<Node>& node, int output_index) {
  auto state = std::make_shared<GradState>();
  state->requires_grad = true;
  state->producer = node;
  state->output_index = output_index;
  return state;
}

// Saved tensors of a node as parts of the graph: the operands where its edges lead, the results where it is
// the producer. Results that vjp takes no gradient of, such as statistics, cannot be differentiated.
inline Tensors recorded_inputs(const Node& node) {
  Tensors values = restore(node.inputs, node);
  for (size_t i = 0; i < values.size(); ++i) {
    const Edge& e = node.edges[i];
    if (!values[i].defined() || !(e.node || e.leaf)) continue;
    values[i] = with_history(values[i], e.leaf ? e.leaf : history_of(e.node, e.output_index));
  }
  return values;
}
inline Tensors recorded_outputs(const std::shared_ptr<Node>& node) {
  Tensors values = restore(node->outputs, *node);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined() || !is_floating(values[i].dtype())) continue;
    const Tensor value = values[i];
    values[i] = with_history(value, history_of(node, static_cast<int>(i)));
    if (i >= node->op->differentiable_outputs())
      values[i] = apply(LostDependence(node->op->name()), {value, values[i]}, node->loc);
  }
  return values;
}

// The nodes that a pass from several roots visits, newest first.
inline std::vector<std::shared_ptr<Node>> topological_order(const std::vector<std::shared_ptr<Node>>& roots) {
  std::vector<std::shared_ptr<Node>> all;
  for (const auto& root : roots) {
    const auto order = topological_order(root);
    all.insert(all.end(), order.begin(), order.end());
  }
  if (roots.size() < 2) return all;
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a->sequence != b->sequence ? a->sequence > b->sequence : a.get() < b.get();
  });
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// A backward pass that stops at chosen places: leaves, or results of nodes.
class GradientPass {
 public:
  GradientPass(std::vector<Edge> places, bool create_graph, bool retain_graph)
      : places_(std::move(places)), sums_(places_.size()), create_(create_graph), retain_(retain_graph) {
    for (size_t i = 0; i < places_.size(); ++i) {
      const Edge& e = places_[i];
      at_[e.leaf ? static_cast<const void*>(e.leaf.get()) : e.node.get()].push_back(i);
    }
  }
  // `result` has this gradient. All results are given before run().
  void start(const Tensor& result, const Tensor& gradient) { starts_.push_back({edge_to(result), gradient}); }
  // The gradients of the places; undefined where nothing arrived.
  Tensors run(Loc loc);

 private:
  struct Start {
    Edge at;
    Tensor gradient;
  };
  bool wanted(const Edge& e) const {
    return e.leaf ? at_.count(e.leaf.get()) > 0 : e.node && (is_place(e) || needed_.count(e.node.get()) > 0);
  }
  bool is_place(const Edge& e) const {
    const auto found = at_.find(e.node.get());
    return found != at_.end() && std::any_of(found->second.begin(), found->second.end(), [&](size_t i) {
             return places_[i].output_index == e.output_index;
           });
  }
  void arrive(const Edge& e, const Tensor& g);
  void find_needed(const std::vector<std::shared_ptr<Node>>& order);
  Tensors gradients_of_inputs(const std::shared_ptr<Node>& node, const Tensors& grads, Loc loc);
  bool by_composition(const Node& node, const Saved& saved, const Tensors& grads, Tensors& results, Loc loc);
  static void mark_lost(const Node& node, const Saved& saved, const Tensors& grads, Tensors& results);

  std::vector<Edge> places_;
  Tensors sums_;
  std::unordered_map<const void*, std::vector<size_t>> at_;  // the places at a leaf or node
  std::unordered_set<const Node*> needed_;                   // nodes on a path to a place
  PendingGradients pending_;
  std::vector<Start> starts_;
  bool create_, retain_;
};

inline void GradientPass::arrive(const Edge& e, const Tensor& g) {
  if (!g.defined() || !wanted(e)) return;
  if (e.leaf) {
    for (size_t i : at_[e.leaf.get()]) accumulate(sums_[i], g);
  } else {
    Tensors& sums = pending_[e.node.get()];
    sums.resize(e.node->output_specs.size());
    accumulate(sums[static_cast<size_t>(e.output_index)], g);
  }
}

inline void GradientPass::find_needed(const std::vector<std::shared_ptr<Node>>& order) {
  for (size_t k = order.size(); k-- > 0;) {
    const auto& edges = order[k]->edges;
    if (std::any_of(edges.begin(), edges.end(), [&](const Edge& e) { return wanted(e); }))
      needed_.insert(order[k].get());
  }
}

inline Tensors GradientPass::run(Loc loc) {
  std::vector<std::shared_ptr<Node>> roots;
  for (const Start& s : starts_) {
    if (s.at.node) roots.push_back(s.at.node);
  }
  const auto order = topological_order(roots);
  find_needed(order);
  std::vector<std::shared_ptr<Node>> visited;
  std::copy_if(order.begin(), order.end(), std::back_inserter(visited),
               [&](const auto& node) { return needed_.count(node.get()) > 0; });
  refuse_used_graph(visited);
  for (const Start& s : starts_) arrive(s.at, s.gradient);
  for (const auto& node : order) {
    const auto found = pending_.find(node.get());
    if (found == pending_.end()) continue;
    Tensors grads = std::move(found->second);
    pending_.erase(found);
    complete_gradients(*node, grads);
    if (const auto here = at_.find(node.get()); here != at_.end()) {
      for (size_t i : here->second) sums_[i] = grads[static_cast<size_t>(places_[i].output_index)];
    }
    if (needed_.count(node.get()) == 0) continue;
    const Tensors results = gradients_of_inputs(node, grads, loc);
    if (!retain_) release(*node);
    for (size_t i = 0; i < std::min<size_t>(results.size(), node->edges.size()); ++i) {
      if (!results[i].defined() || !wanted(node->edges[i])) continue;
      check_gradient_shape(*node, i, results[i]);
      arrive(node->edges[i], results[i]);
    }
  }
  return sums_;
}

// derivative_recorded() is on until the end of the C++ scope, if `on`.
class DerivativeRecording {
 public:
  explicit DerivativeRecording(bool on) : before_(std::exchange(derivative_recorded(), on)) {}
  ~DerivativeRecording() { derivative_recorded() = before_; }
  DerivativeRecording(const DerivativeRecording&) = delete;
  DerivativeRecording& operator=(const DerivativeRecording&) = delete;

 private:
  bool before_;
};

inline Tensors GradientPass::gradients_of_inputs(const std::shared_ptr<Node>& node, const Tensors& grads,
                                                 Loc loc) {
  const DerivativeRecording recording(create_);
  const BackwardScope scope(*node);
  Saved saved{create_ ? recorded_inputs(*node) : restore(node->inputs, *node), {}, node->input_shapes, {}};
  for (const Edge& e : node->edges) saved.needs_grad.push_back(wanted(e));
  Tensors results;
  if (create_ && by_composition(*node, saved, grads, results, loc)) return results;
  saved.outputs = create_ ? recorded_outputs(node) : restore(node->outputs, *node);
  results = call_virtual<&PrimitiveBase::vjp>(*node->op, saved, grads);
  scope.gave(grads, results);
  if (create_) mark_lost(*node, saved, grads, results);
  return results;
}

// Computes the node's results again by differentiable operations, and differentiates these. Each operand
// enters by a Passage, so that the derivative is a partial one even if an operand depends on another one.
inline bool GradientPass::by_composition(const Node& node, const Saved& saved, const Tensors& grads,
                                         Tensors& results, Loc loc) {
  Tensors inputs = saved.inputs;
  std::vector<Edge> ends(saved.needs_grad.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!saved.needs_grad[i] || !tracks_grad(inputs[i])) continue;
    inputs[i] = apply(Passage(), {inputs[i]}, node.loc);
    ends[i] = edge_to(inputs[i]);
  }
  const Tensors again = call_virtual<&PrimitiveBase::composed>(*node.op, inputs);
  if (again.empty()) return false;
  GradientPass pass(ends, true, true);
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    if (i >= again.size()) fail_no_derivative(std::string(node.op->name()) + "_grad");
    if (tracks_grad(again[i])) pass.start(again[i], grads[i]);
  }
  results = pass.run(loc);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].defined()) results[i] = results[i].to(inputs[i].dtype());
  }
  return true;
}

// A derivative is linear in the gradients of the results. If they have a history and a result of vjp has
// none, then vjp has left the graph, for example by a kernel or detach().
inline void GradientPass::mark_lost(const Node& node, const Saved& saved, const Tensors& grads,
                                    Tensors& results) {
  const auto tracked = std::find_if(grads.begin(), grads.end(), tracks_grad);
  if (tracked == grads.end()) return;
  for (size_t i = 0; i < std::min(results.size(), saved.needs_grad.size()); ++i) {
    if (saved.needs_grad[i] && results[i].defined() && !tracks_grad(results[i]))
      results[i] = apply(LostDependence(node.op->name()), {results[i], *tracked}, node.loc);
  }
}

TT_API Tensors grad(const Tensor& result, const Tensors& inputs, const GradOptions& options, Loc loc) {
  require_defined("grad", loc, result);
  require_defined("grad", inputs, loc);
  std::vector<Edge> places;
  for (size_t i = 0; i < inputs.size(); ++i) {
    places.push_back(edge_to(inputs[i]));
    if (places.back().node || places.back().leaf) continue;
    fail("TT-GRAD-01",
         "grad: input " + std::to_string(i) + ", " + inputs[i].describe() +
             ", does not require a gradient\n  hint: call requires_grad_() on it before computing the result",
         loc);
  }
  const GradMode mode(options.create_graph);
  const Tensor start = starting_gradient(result, options.gradient, loc);
  GradientPass pass(std::move(places), options.create_graph,
                    options.retain_graph.value_or(options.create_graph));
  pass.start(result, start);
  Tensors grads = pass.run(loc);
  for (size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].defined()) {
      grads[i] = grads[i].to(inputs[i].dtype());
    } else if (!options.allow_unused) {
      fail("TT-GRAD-01",
           "grad: the result " + result.describe() + " does not depend on input " + std::to_string(i) + ", " +
               inputs[i].describe() + "\n  hint: allow_unused = true gives an undefined gradient for it",
           loc);
    }
  }
  return grads;
}

// With create_graph: a pass to all leaves, whose gradients keep their history.
TT_API void backward_with(const Tensor& result, const BackwardOptions& options, Loc loc) {
  if (!options.create_graph) {
    return backward(result, options.gradient, options.retain_graph.value_or(false), loc);
  }
  require_defined("backward", loc, result);
  const GradMode mode(true);
  const Tensor start = starting_gradient(result, options.gradient, loc);
  const Edge root = edge_to(result);
  std::vector<Edge> leaves;
  if (root.leaf) leaves.push_back(root);
  std::unordered_set<const GradState*> seen;
  for (const auto& node : root.node ? topological_order(root.node) : std::vector<std::shared_ptr<Node>>{}) {
    for (const Edge& e : node->edges) {
      if (e.leaf && seen.insert(e.leaf.get()).second) leaves.push_back(e);
    }
  }
  GradientPass pass(leaves, true, options.retain_graph.value_or(true));
  pass.start(result, start);
  const Tensors grads = pass.run(loc);
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    GradState& leaf = *leaves[i].leaf;
    const Tensor g = run_hooks(leaf.hooks, grads[i]);
    leaf.grad = leaf.grad.defined() ? add(leaf.grad, g.to(leaf.grad.dtype())) : clone(g);
    leaf.wide_grad = Tensor();
  }
}

}  // namespace tinytorch::inline TT_BUILD
#endif
