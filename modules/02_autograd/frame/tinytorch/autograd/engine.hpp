// The backward pass: gradients of one result with respect to every leaf that it depends on.
//
// The frame of a course header: it has the given parts, and includes the functions of tasks 2.4 and 2.6. It
// is cut from the library's header by modules/frames.py.
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

#if TT_BODIES(TENSOR) || defined(TINYTORCH_TASK)
#include <algorithm>
#include <tinytorch/tensor/observer.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tensor/ops/members.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <unordered_map>
#include <unordered_set>

namespace tinytorch::inline TT_BUILD {

// The sum of two gradients as a new tensor. A sum of 16-bit gradients is f32, because bf16 can count ones
// only up to 256.
inline Tensor widened(const Tensor& g) { return is_16_bit(g.dtype()) ? g.to(DType::f32) : g; }
inline Tensor sum_of(const Tensor& a, const Tensor& b) { return add(widened(a), widened(b)); }

inline void accumulate(Tensor& sum, const Tensor& g);  // task 2.6

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

inline void keep_grad(GradState& owner, Tensor g);  // task 2.6
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

// Task 2.6.
inline void deliver(Node& node, Tensors& results, LeafGradients& leaves, PendingGradients& pending);

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

TT_API void Tensor::backward(const Tensor& gradient, bool retain_graph, Loc loc) const {
  tinytorch::backward(*this, gradient, retain_graph, loc);
}

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/autograd/engine.hpp>
#endif
