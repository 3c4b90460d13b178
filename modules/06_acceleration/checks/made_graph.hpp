// Graphs for the checks of this module, made by hand instead of by capture.
#pragma once

#include <support/check.hpp>
#include <tinytorch/acceleration/graph.hpp>

namespace course {

// Works like expect(), but makes the text only if the check fails.
template <class Text>
void expect_or(bool holds, Text&& text) {
  expect(holds ? std::string() : text(), holds);
}

enum class Step : uint8_t { kernel, elementwise, view };

// An operation that never runs.
struct NamedStep final : Primitive<NamedStep> {
  static constexpr const char* kName = "step";
  Step what = Step::kernel;

  const char* name() const override {
    return what == Step::view ? "view" : what == Step::kernel ? "kernel" : "elementwise";
  }
  bool is_view() const override { return what == Step::view; }
  bool pointwise(backend::PointwiseStep& step) const override {
    return what == Step::elementwise && step.set(backend::PointwiseKind::convert);
  }
  Specs infer(const Tensors&, Loc) const override { return {}; }
  void run(const Tensors&, Tensors&) const override {}
};

// A graph, and what the check itself remembers of it: from which value each view was made.
struct MadeGraph {
  OpGraph graph;
  std::vector<int> made_from;  // of each value: the operand of a view, else -1

  int add(ValueKind kind, const Shape& shape, DType dtype = f32, int from = -1) {
    GraphValue v;
    v.kind = kind, v.shape = shape, v.dtype = dtype;
    v.strides = Strides::filled(shape.size(), 1);
    for (int d = shape.size() - 2; d >= 0; --d) v.strides[d] = v.strides[d + 1] * shape[d + 1];
    const auto number = static_cast<int>(graph.values.size());
    v.root = from < 0 ? number : owner(from);
    graph.values.push_back(v);
    made_from.push_back(from);
    return number;
  }
  int input(const Shape& shape, DType dtype = f32) {
    graph.inputs.push_back(add(ValueKind::input, shape, dtype));
    return graph.inputs.back();
  }
  int external(const Shape& shape) { return add(ValueKind::external, shape); }

  // A step that computes one value of each shape; operand -1: omitted.
  std::vector<int> compute(const std::vector<int>& operands, const std::vector<Shape>& shapes,
                           DType dtype = f32, Step what = Step::kernel) {
    std::vector<int> results;
    for (const Shape& shape : shapes) results.push_back(add(ValueKind::computed, shape, dtype));
    step(operands, results, what);
    return results;
  }
  int compute(const std::vector<int>& operands, const Shape& shape, DType dtype = f32) {
    return compute(operands, std::vector<Shape>{shape}, dtype)[0];
  }
  int elementwise(const std::vector<int>& operands, const Shape& shape, DType dtype = f32) {
    return compute(operands, std::vector<Shape>{shape}, dtype, Step::elementwise)[0];
  }
  int view(int of, const Shape& shape) {
    const int v = add(ValueKind::view, shape, graph.values[static_cast<size_t>(of)].dtype, of);
    step({of}, {v}, Step::view);
    return v;
  }
  int owner(int v) const {
    while (made_from[static_cast<size_t>(v)] >= 0) v = made_from[static_cast<size_t>(v)];
    return v;
  }
  int steps() const { return static_cast<int>(graph.steps.size()); }
  // One line per step: "step 2, kernel: 5 = (3, 4)"; then the results.
  std::string text() const {
    const auto list = [](const std::vector<int>& numbers) {
      std::string all;
      for (const int v : numbers) all += (all.empty() ? "" : ", ") + (v < 0 ? "none" : std::to_string(v));
      return all;
    };
    std::string lines = "\n";
    for (size_t s = 0; s < graph.steps.size(); ++s) {
      const GraphStep& x = graph.steps[s];
      lines += "  step " + std::to_string(s) + ", " + x.op->name() + ": " + list(x.outputs) + " = (" +
               list(x.inputs) + ")\n";
    }
    return lines + "  results: " + list(graph.outputs);
  }

 private:
  void step(const std::vector<int>& operands, const std::vector<int>& results, Step what) {
    NamedStep op;
    op.what = what;
    GraphStep s;
    s.op = op.clone();
    s.inputs = operands, s.outputs = results;
    for (const int v : results) graph.values[static_cast<size_t>(v)].step = steps();
    graph.steps.push_back(std::move(s));
  }
};

}  // namespace course
