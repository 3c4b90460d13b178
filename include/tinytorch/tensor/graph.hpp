// The autograd graph: a node for each recorded operation, with edges to the nodes of its inputs.
//
// A Node owns the primitive, the saved tensors and its parents; a tensor points to the node that produced it.
// A graph therefore lives as long as a tensor that was computed by it. Saved tensors are aliases outside the
// graph, so there are no reference cycles. autograd/engine.hpp runs the backward pass over the nodes.
#pragma once

#include <algorithm>
#include <functional>
#include <tinytorch/tensor/primitive.hpp>

namespace tinytorch::inline TT_BUILD {

struct Node;
using GradHook = std::function<Tensor(const Tensor& grad)>;  // returns the gradient to use instead

// Autograd state of a tensor. A leaf has no producer, and stores its gradient here.
struct GradState {
  bool requires_grad = false;
  std::shared_ptr<Node> producer;
  int output_index = 0;
  Tensor grad;
  // If grad has 16 bits and several backward passes added to it: their sum in f32, of which grad is the
  // rounded copy. If the user has written to grad since then, grad itself is the sum.
  Tensor wide_grad;
  uint64_t wide_version = 0;    // version of grad's storage when wide_grad was last updated
  std::vector<GradHook> hooks;  // hooks of a leaf; those of other tensors are in the producer
};

struct SavedTensor {
  Tensor value;
  uint64_t version = 0;
};

using SavedTensors = SmallVector<SavedTensor, 3>;

// Destination of an input's gradient: the node that produced the input, a leaf, or neither.
struct Edge {
  std::shared_ptr<Node> node;
  int output_index = 0;
  std::shared_ptr<GradState> leaf;
};

struct OutputHooks {
  std::vector<GradHook> hooks;
  std::weak_ptr<GradState> retain;  // set by retain_grad() on that output
};

struct Node {
  OwnedPrimitive op;
  SmallVector<Edge, 3> edges;  // one per input
  Shapes input_shapes;
  SavedTensors inputs, outputs;
  SmallVector<OutputHooks, 1> output_hooks;
  Specs output_specs;
  Loc loc;                // the caller of the operation
  uint64_t sequence = 0;  // creation order: parents always have smaller numbers
  bool released = false;  // a backward pass has freed the saved tensors

  // Recursive destruction of a long chain would overflow the stack, so parents that only this node owns are
  // destroyed in a loop.
  ~Node() {
    std::vector<std::shared_ptr<Node>> doomed;
    take_parents(doomed);
    while (!doomed.empty()) {
      const std::shared_ptr<Node> node = std::move(doomed.back());
      doomed.pop_back();
      if (node.use_count() == 1) node->take_parents(doomed);
    }
  }

 private:
  void take_parents(std::vector<std::shared_ptr<Node>>& out) {
    for (Edge& e : edges) {
      if (e.node) out.push_back(std::move(e.node));
    }
  }
};

// Recording is enabled unless a NoGrad exists in this thread.
inline bool& grad_enabled() {
  thread_local bool enabled = true;
  return enabled;
}

// True while a derivative is computed that may be differentiated again (autograd/grad.hpp). Operations
// without a derivative are then recorded as well, so that the second pass names them instead of losing a
// term.
inline bool& derivative_recorded() {
  thread_local bool recorded = false;
  return recorded;
}

inline bool tracks_grad(const Tensor& t) {
  return t.defined() && t.impl()->grad_state && t.impl()->grad_state->requires_grad;
}
// True if an operation on these inputs is recorded, provided that it has a derivative.
inline bool records_grad(const Tensors& inputs) {
  return grad_enabled() && std::any_of(inputs.begin(), inputs.end(), tracks_grad);
}

// A number above those that this thread has used before, and above `parents`, which other threads may have
// assigned.
inline uint64_t next_sequence(uint64_t parents) {
  thread_local uint64_t counter = 0;
  return counter = std::max(counter, parents) + 1;
}

inline Edge edge_to(const Tensor& t) {
  if (!tracks_grad(t)) return {};
  const auto& state = t.impl()->grad_state;
  return state->producer ? Edge{state->producer, state->output_index, nullptr} : Edge{nullptr, 0, state};
}

// Replaces saved inputs that no needed gradient reads, such as y of y * 2, by placeholders of their shapes:
// the values of the other operand, which is read. So y may be freed or overwritten.
inline void drop_unread_inputs(const PrimitiveBase& op, const Tensors& inputs, Node& node) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int reader = op.reader_of(i);
    if (reader < 0) continue;
    const Edge& edge = node.edges[static_cast<size_t>(reader)];
    const Tensor& other = inputs[static_cast<size_t>(reader)];
    if (edge.node || edge.leaf || other.numel() == 0) continue;
    const Shape& shape = inputs[i].shape();
    node.inputs[i] = {alias(other, shape, Strides::filled(shape.size(), 0), other.offset()),
                      other.storage()->version()};
  }
}

// Records `op` as a node, and makes it the producer of the floating outputs.
inline void record(const PrimitiveBase& op, const Tensors& inputs, Tensors& outputs, Loc loc) {
  auto node = std::make_shared<Node>();
  node->op = call_virtual<&PrimitiveBase::clone>(op);
  node->loc = loc;
  uint64_t newest_parent = 0;
  const auto keep = [](const Tensor& t) {
    if (!t.defined()) return SavedTensor{};
    return SavedTensor{alias(t, t.shape(), t.strides(), t.offset()), t.storage()->version()};
  };
  const auto saves = [what = static_cast<uint8_t>(op.saves())](Save part) {
    return (what & static_cast<uint8_t>(part)) != 0;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    node->edges.push_back(edge_to(t));
    if (const auto& parent = node->edges.back().node)
      newest_parent = std::max(newest_parent, parent->sequence);
    node->input_shapes.push_back(t.defined() ? t.shape() : Shape{});
    if (saves(Save::inputs)) node->inputs.push_back(op.saves_input(i) ? keep(t) : SavedTensor{});
  }
  if (saves(Save::inputs)) drop_unread_inputs(op, inputs, *node);
  node->sequence = next_sequence(newest_parent);
  node->output_hooks.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& t = outputs[i];
    node->output_specs.push_back({t.shape(), t.dtype()});
    if (saves(Save::outputs) || saves(Save::extras)) {
      const bool kept = (i > 0 || saves(Save::outputs)) && op.saves_output(i);
      node->outputs.push_back(kept ? keep(t) : SavedTensor{});
    }
    if (!is_floating(t.dtype())) continue;
    auto state = std::make_shared<GradState>();
    state->requires_grad = true;
    state->producer = node;
    state->output_index = static_cast<int>(i);
    t.impl()->grad_state = std::move(state);
  }
}

}  // namespace tinytorch::inline TT_BUILD
