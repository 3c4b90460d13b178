// The backward pass: gradients of one result with respect to every leaf that it depends on.
//
//   1. find the nodes that can be reached from the result;
//   2. visit them newest first: a node is newer than every node that it was computed from, so this is a
//      topological order, and all gradients of a node have arrived when the node is visited;
//   3. at each node, check that its saved tensors were not overwritten, compute the vector-Jacobian product,
//      add the gradients to the parents, and free the saved tensors.
// There is no recursion, so a chain may have any length.
// Source: Griewank and Walther, "Evaluating Derivatives", 2nd edition, 2008.
#pragma once

#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/backend/layout.hpp>
#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

// The nodes that a backward pass from root visits: root first, each node once and before every node that it
// was computed from. Visiting nodes from the newest to the oldest is one such order.
TT_API std::vector<std::shared_ptr<Node>> topological_order(const std::shared_ptr<Node>& root);
// Adds d(result)/d(leaf), times `gradient`, to grad() of every leaf. Without a gradient, result must have one
// element.
TT_API void backward(const Tensor& result, const Tensor& gradient = {}, bool retain_graph = false, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <tinytorch/tensor/observer.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tensor/ops/members.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <unordered_map>
#include <unordered_set>

namespace tinytorch::inline TT_BUILD {

// `root` and all nodes reachable by edges, each once, newest first, so that the gradient of a node is
// complete when it is visited. There is no recursion, because a graph can be a chain of 100,000 nodes;
// visited nodes are remembered, because many paths can lead to one node.
TT_API std::vector<std::shared_ptr<Node>> topological_order(const std::shared_ptr<Node>& root) {
  std::vector<std::shared_ptr<Node>> found{root};
  std::unordered_set<const Node*> seen{root.get()};
  for (size_t i = 0; i < found.size(); ++i) {
    const std::shared_ptr<Node> node = found[i];  // a copy: found grows
    for (const Edge& e : node->edges) {
      if (e.node && seen.insert(e.node.get()).second) found.push_back(e.node);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a->sequence > b->sequence; });
  return found;
}

// The sum of two gradients as a new tensor. A sum of 16-bit gradients is f32, because bf16 can count ones
// only up to 256.
inline Tensor widened(const Tensor& g) { return is_16_bit(g.dtype()) ? g.to(DType::f32) : g; }
inline Tensor sum_of(const Tensor& a, const Tensor& b) { return add(widened(a), widened(b)); }

// sum = sum + g, where an undefined sum is 0. g may be in use elsewhere, so it is never written to.
inline void accumulate(Tensor& sum, const Tensor& g) { sum = sum.defined() ? sum_of(sum, g) : g; }

inline Tensor run_hooks(const std::vector<GradHook>& hooks, Tensor g) {
  for (const GradHook& hook : hooks) {
    Tensor changed = hook(g);
    if (!changed.defined()) continue;
    if (!(changed.shape() == g.shape() && changed.dtype() == g.dtype() && changed.device() == g.device())) {
      fail("TT-GRAD-09", "backward: a hook turned the gradient " + g.describe() + " into " +
                             changed.describe() + "\n  rule: a hook keeps shape, dtype and device");
    }
    g = std::move(changed);
  }
  return g;
}

// owner.grad = owner.grad + g, for a defined owner.grad. For 16-bit gradients, the sum in f32 is kept as
// well.
inline void add_to_grad(GradState& owner, const Tensor& g) {
  if (!(is_16_bit(g.dtype()) && is_16_bit(owner.grad.dtype()))) {
    owner.grad = add(owner.grad, g.to(owner.grad.dtype()));  // a gradient set by set_grad() may be f32
    return;
  }
  const bool known = owner.wide_grad.defined() && owner.grad.storage()->version() == owner.wide_version;
  owner.wide_grad = sum_of(known ? owner.wide_grad : owner.grad, g);
  owner.grad = owner.wide_grad.to(g.dtype());
  owner.wide_version = owner.grad.storage()->version();
}

// Adds g to owner.grad, which the user sees. It outlives the backward pass, does not belong to a graph, and
// may be written to by the user. It must therefore own its memory, and not share it with a hook's tensor, a
// caller's tensor or another leaf's gradient.
inline void keep_grad(GradState& owner, Tensor g) {
  if (owner.grad.defined()) {
    add_to_grad(owner, g);
  } else {
    const bool dense =
        g.is_contiguous() || (g.rank() == 4 && g.strides() == backend::channels_last_strides(g.shape()));
    const bool sole_owner = g.handle_count() == 1 && g.storage().use_count() == 1 && dense;
    owner.grad = sole_owner ? g.detach() : dense ? g.detach().clone() : g.detach().contiguous();
  }
}
inline void accumulate_leaf(GradState& leaf, Tensor g) {
  keep_grad(leaf, run_hooks(leaf.hooks, std::move(g)));
}

// Gradients of leaves. Each use of a leaf in an operation is one edge to it. When the gradient of the last
// edge has arrived, the sum is complete, passes the leaf's hooks and is added to its grad().
class LeafGradients {
 public:
  explicit LeafGradients(const std::vector<std::shared_ptr<Node>>& order) {
    size_t count = 0;
    for (const auto& node : order) count += node->edges.size();
    std::vector<const GradState*> leaves;  // the leaf of each edge
    leaves.reserve(count);
    for (const auto& node : order) {
      for (const Edge& e : node->edges) {
        if (e.leaf) leaves.push_back(e.leaf.get());
      }
    }
    std::sort(leaves.begin(), leaves.end());
    sums_.reserve(leaves.size());
    for (const GradState* leaf : leaves) {
      if (sums_.empty() || sums_.back().leaf != leaf) sums_.push_back({leaf});
      ++sums_.back().edges;
    }
  }
  // Adds the gradient of one edge to `leaf`: g has the leaf's dtype, or is undefined for a zero gradient.
  void arrive(GradState& leaf, Tensor g) {
    Sum& sum = *std::lower_bound(sums_.begin(), sums_.end(), &leaf,
                                 [](const Sum& s, const GradState* l) { return s.leaf < l; });
    if (g.defined()) sum.dtype = g.dtype();
    if (!sum.value.defined()) {
      sum.value = std::move(g);  // a single gradient is moved, so that it keeps one owner
    } else if (g.defined()) {
      accumulate(sum.value, g);
    }
    if (--sum.edges > 0 || !sum.value.defined()) return;
    Tensor whole = std::move(sum.value);
    accumulate_leaf(leaf, whole.dtype() == sum.dtype ? std::move(whole) : whole.to(sum.dtype));
  }

 private:
  struct Sum {
    const GradState* leaf;
    Tensor value{};
    DType dtype = DType::f32;
    int64_t edges = 0;  // edges whose gradient has not arrived
  };
  std::vector<Sum> sums_;  // sorted by leaf
};

// The saved tensors for the derivative. Throws if one was written to since the forward pass.
inline Tensors restore(const SavedTensors& saved, const Node& node) {
  Tensors values;
  for (const SavedTensor& s : saved) {
    if (s.value.defined() && s.value.storage()->version() != s.version) {
      fail("TT-GRAD-02",
           "backward: a tensor that '" + std::string(node.op->name()) + "' saved (" + s.value.describe() +
               ") was overwritten in place after the forward pass\n  hint: write to a clone(), or run "
               "backward before the write",
           node.loc);
    }
    values.push_back(s.value);
  }
  return values;
}

// Completes the gradients of a node's outputs: their dtypes, hooks, and the first one, which is never
// undefined.
inline void complete_gradients(Node& node, Tensors& grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    OutputHooks& extra = node.output_hooks[i];
    if (!grads[i].defined()) continue;
    grads[i] = run_hooks(extra.hooks, grads[i].to(node.output_specs[i].dtype));
    if (const auto state = extra.retain.lock()) keep_grad(*state, grads[i]);
  }
  // Most primitives read only the gradient of their first output, so it must be defined: zeros if only other
  // outputs have a gradient.
  if (!grads[0].defined()) {
    Device device;
    for (const Tensor& g : grads) device = g.defined() ? g.device() : device;
    grads[0] = zeros(node.output_specs[0].shape, node.output_specs[0].dtype, device);
  }
}

// Computes the gradients of a node's inputs from those of its outputs.
inline Tensors node_vjp(Node& node, Tensors& grads) {
  complete_gradients(node, grads);
  Saved saved{restore(node.inputs, node), restore(node.outputs, node), node.input_shapes, {}};
  for (const Edge& e : node.edges) saved.needs_grad.push_back(e.node || e.leaf);
  const BackwardScope scope(node);
  Tensors results = call_virtual<&PrimitiveBase::vjp>(*node.op, saved, grads);
  scope.gave(grads, results);
  return results;
}

inline void release(Node& node) {
  node.inputs.clear();
  node.outputs.clear();
  node.released = true;
}

inline void check_gradient_shape(const Node& node, size_t input, const Tensor& g) {
  if (g.shape() == node.input_shapes[input]) return;
  fail("TT-GRAD-07",
       "backward: the derivative of '" + std::string(node.op->name()) + "' gave a gradient of shape " +
           g.shape().str() + " for input " + std::to_string(input) + " of shape " +
           node.input_shapes[input].str(),
       node.loc);
}

// The sums of the gradients that have arrived so far at nodes not yet visited, one per output of the node.
using PendingGradients = std::unordered_map<const Node*, Tensors>;

// Distributes `results`, the gradients of a node's inputs. Edge i tells the destination of gradient i: a
// leaf, one output of another node (pending), or none. An undefined gradient means zero, and so does a
// missing one, when no gradient arrived at the node; leaves are still notified, because they wait for all
// their edges.
inline void deliver(Node& node, Tensors& results, LeafGradients& leaves, PendingGradients& pending) {
  for (size_t i = 0; i < node.edges.size(); ++i) {
    const Edge& e = node.edges[i];
    Tensor g = i < results.size() ? std::move(results[i]) : Tensor();
    if (g.defined() && (e.node || e.leaf)) check_gradient_shape(node, i, g);
    if (e.leaf) {
      leaves.arrive(*e.leaf, std::move(g));
    } else if (g.defined() && e.node) {
      Tensors& sums = pending[e.node.get()];
      sums.resize(e.node->output_specs.size());
      accumulate(sums[static_cast<size_t>(e.output_index)], g);
    }
  }
}

inline Tensor starting_gradient(const Tensor& result, const Tensor& gradient, Loc loc) {
  if (!tracks_grad(result)) {
    fail("TT-GRAD-01",
         "backward: " + result.describe() +
             " does not depend on any tensor that requires grad\n"
             "  hint: call requires_grad_() on the leaves before computing, outside any NoGrad scope",
         loc);
  }
  if (!gradient.defined() && result.numel() != 1) {
    fail("TT-GRAD-08",
         "backward: a gradient is needed for a result of more than one element, got " + result.describe() +
             "\n  hint: reduce to a scalar loss first, or pass a gradient of the same shape",
         loc);
  }
  if (gradient.defined() && !(gradient.shape() == result.shape() && gradient.dtype() == result.dtype())) {
    fail("TT-GRAD-09",
         "backward: the gradient " + gradient.describe() + " does not match " + result.describe(), loc);
  }
  if (gradient.defined()) return gradient;
  const Tensor one = ones_like(result);
  one.impl()->unit = true;
  return one;
}

inline void refuse_used_graph(const std::vector<std::shared_ptr<Node>>& order) {
  for (const auto& node : order) {
    if (!node->released) continue;
    fail("TT-GRAD-03",
         "backward: this graph was already used by a backward pass, which freed what '" +
             std::string(node->op->name()) +
             "' had saved\n  hint: call the first one with "
             "retain_graph = true, or compute the result again",
         node->loc);
  }
}

// Visits the nodes in topological order. A node with gradients computes those of its inputs (node_vjp) and
// distributes them (deliver); a node without any has nothing to compute. Unless the graph is retained, each
// node is released right after its visit, because its saved tensors are most of the memory.
TT_API void backward(const Tensor& result, const Tensor& gradient, bool retain_graph, Loc loc) {
  require_defined("backward", loc, result);
  const NoGrad guard;
  Tensor start = starting_gradient(result, gradient, loc);
  const auto& state = result.impl()->grad_state;
  if (!state->producer) return accumulate_leaf(*state, start);

  const auto order = topological_order(state->producer);
  refuse_used_graph(order);
  LeafGradients leaves(order);
  PendingGradients pending;
  Tensors& first = pending[state->producer.get()];
  first.resize(state->producer->output_specs.size());
  first[static_cast<size_t>(state->output_index)] = std::move(start);
  for (const auto& node : order) {
    Tensors results;
    if (const auto found = pending.find(node.get()); found != pending.end()) {
      Tensors grads = std::move(found->second);
      pending.erase(found);
      results = node_vjp(*node, grads);
    }
    if (!retain_graph) release(*node);  // before: a gradient that was saved is then the leaf's own
    deliver(*node, results, leaves, pending);
  }
}

TT_API void Tensor::backward(const Tensor& gradient, bool retain_graph, Loc loc) const {
  tinytorch::backward(*this, gradient, retain_graph, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
