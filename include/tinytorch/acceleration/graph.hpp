// OpGraph: the operations of a function in the order in which they ran, and the values between them.
//
// A step is a primitive of the library (tensor/primitive.hpp), so a graph has no second set of operations:
// shapes, FLOPs, bytes, kernels and derivatives are those of the primitive. capture.hpp makes a graph,
// fusion.hpp rewrites it, plan.hpp places its values in memory, and executable.hpp runs it.
#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <tinytorch/tensor/primitive.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

enum class ValueKind : uint8_t {
  input,     // an argument of the function
  external,  // a tensor that the function uses but did not compute: a parameter, a constant
  computed,  // the result of a step, with memory of its own
  view       // a part or another order of the elements of `root`, in its memory
};

struct GraphValue {
  ValueKind kind = ValueKind::computed;
  Shape shape;
  Strides strides;
  DType dtype = DType::f32;
  Device device = cpu;
  int root = -1;       // the value that owns the memory: the value itself, unless it is a view
  int64_t offset = 0;  // of a view: elements from the first element of root
  int step = -1;       // the first step that makes it; -1 for inputs, externals and views that no step made
  Tensor external;     // of an external value
};

struct GraphStep {
  OwnedPrimitive op;
  std::vector<int> inputs;  // numbers of values; -1: an operand that the call omitted
  std::vector<int> outputs;
  Cost cost;
  std::string module;        // the path of scopes around the call: "Mlp/Linear"
  bool backward = false;     // a part of a derivative
  Loc loc = Loc::current();  // of the library: a recorder does not see the caller's

  bool is_view() const { return op->is_view(); }
};

inline GraphStep copy_of(const GraphStep& from) {
  GraphStep step;
  step.op = from.op->clone();
  step.inputs = from.inputs, step.outputs = from.outputs, step.cost = from.cost;
  step.module = from.module, step.backward = from.backward, step.loc = from.loc;
  return step;
}

// A tensor of the program that a function writes in place, and its elements before that.
struct WrittenTensor {
  Tensor place, before;
};

struct OpGraph {
  std::vector<GraphValue> values;
  std::vector<GraphStep> steps;
  std::vector<int> inputs;   // in the order of the arguments
  std::vector<int> outputs;  // in the order of the results
  // The default generator before the capture, and the blocks of random numbers that the steps drew from it.
  GeneratorState random{};
  uint64_t random_blocks = 0;
  std::vector<WrittenTensor> written;  // tensors of the program that steps write in place

  const GraphValue& root_of(int v) const { return value(root(v)); }
  // Throws std::out_of_range for an operand that a call omitted, -1.
  const GraphValue& value(int v) const { return values.at(static_cast<size_t>(v)); }
  // True if output k of step s overwrites elements of a value that exists before it. So it is also read.
  bool writes_in_place(size_t s, size_t k) const {
    if (steps[s].is_view()) return false;
    const GraphValue& v = value(steps[s].outputs[k]);
    return v.kind != ValueKind::computed || (v.step >= 0 && v.step != static_cast<int>(s));
  }
  // The roots that steps write in place.
  std::vector<bool> overwritten() const {
    std::vector<bool> found(values.size(), false);
    for (size_t s = 0; s < steps.size(); ++s) {
      for (size_t k = 0; k < steps[s].outputs.size(); ++k)
        if (writes_in_place(s, k)) found[static_cast<size_t>(root(steps[s].outputs[k]))] = true;
    }
    return found;
  }
  // The given roots, and those of all values that steps from `first` on compute from them.
  std::set<int> computed_from(std::set<int> roots, size_t first) const {
    for (size_t s = first; s < steps.size(); ++s) {
      const bool reads =
          std::ranges::any_of(steps[s].inputs, [&](int v) { return v >= 0 && roots.contains(root(v)); });
      for (const int v : steps[s].outputs) {
        if (reads) roots.insert(root(v));
      }
    }
    return roots;
  }
  int root(int v) const { return value(v).kind == ValueKind::view ? value(v).root : v; }

  // Steps that run a kernel; views do not.
  int64_t kernels() const {
    int64_t count = 0;
    for (const GraphStep& s : steps) count += s.is_view() ? 0 : 1;
    return count;
  }
  double bytes_moved() const {
    double bytes = 0;
    for (const GraphStep& s : steps) bytes += s.cost.bytes;
    return bytes;
  }
  double flops() const {
    double flops = 0;
    for (const GraphStep& s : steps) flops += s.cost.flops;
    return flops;
  }
  // One line per step: "%5 f32 [8, 16] = add(%3, %4)  Mlp/Linear".
  std::string str() const;
};

// The device of what the steps compute.
inline Device device_of(const OpGraph& graph) {
  for (const GraphValue& v : graph.values) {
    if (v.kind == ValueKind::computed) return v.device;
  }
  return cpu;
}

// Bytes of the block of memory that a value needs.
inline int64_t bytes_of(const GraphValue& v) {
  return v.shape.numel() * static_cast<int64_t>(size_of(v.dtype));
}

inline std::string OpGraph::str() const {
  const auto described = [&](int v) {
    return "%" + std::to_string(v) + " " + name_of(value(v).dtype) + " " + value(v).shape.str();
  };
  std::string text;
  for (const int v : inputs) text += described(v) + " = input\n";
  for (size_t v = 0; v < values.size(); ++v) {
    const GraphValue& x = values[v];
    if (x.kind != ValueKind::external) continue;
    text += described(static_cast<int>(v)) + " = external";
    text += x.external.name().empty() ? "\n" : " '" + x.external.name() + "'\n";
  }
  for (const GraphStep& s : steps) {
    for (size_t k = 0; k < s.outputs.size(); ++k) text += (k > 0 ? ", " : "") + described(s.outputs[k]);
    text += " = " + std::string(s.op->name()) + "(";
    for (size_t k = 0; k < s.inputs.size(); ++k)
      text += (k > 0 ? ", " : "") + (s.inputs[k] < 0 ? "none" : "%" + std::to_string(s.inputs[k]));
    text += ")" + (s.module.empty() ? "" : "  " + s.module) + (s.backward ? "  (backward)" : "") + "\n";
  }
  text += "return";
  for (const int v : outputs) text += " %" + std::to_string(v);
  return text + "\n";
}

}  // namespace tinytorch::inline TT_BUILD
