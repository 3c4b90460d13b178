// Fusion: neighbouring elementwise steps become one step, whose intermediate values never reach memory.
//
// step_groups.hpp decides which steps run together. Here the groups become steps, with a program for each.
#pragma once

#include <algorithm>
#include <string>
#include <tinytorch/acceleration/region.hpp>
#include <tinytorch/acceleration/step_groups.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct FusionOptions {
  int64_t memory_budget = 0;  // largest peak of live bytes; 0: the peak of the graph before fusion
  int max_steps = 64;         // of a group
  RegionKernels kernels = RegionKernels::background;
};

// The operations of two steps that are neighbours and were not fused, and why.
struct NotFused {
  std::string producer, consumer;
  std::string reason;
};

struct Fused {
  OpGraph graph;
  std::vector<NotFused> refused;
  int64_t peak_before = 0, peak_after = 0;  // live bytes
};

// The step that computes a group of elementwise steps of `graph`.
inline GraphStep fused_step(const OpGraph& graph, const StepGroups& groups, int group,
                            RegionKernels kernels) {
  auto program = std::make_shared<backend::PointwiseProgram>();
  FusedPointwise op;
  GraphStep step;
  std::vector<int> members = groups.members(group), results;
  std::ranges::sort(members);
  const auto position = [](const std::vector<int>& list, int v) {
    const auto found = std::ranges::find(list, v);
    return found == list.end() ? -1 : static_cast<int>(found - list.begin());
  };
  for (const int m : members) results.push_back(graph.steps[static_cast<size_t>(m)].outputs[0]);
  for (const int m : members) {
    for (const int v : graph.steps[static_cast<size_t>(m)].inputs) {
      if (position(results, v) < 0 && position(step.inputs, v) < 0) step.inputs.push_back(v);
    }
  }
  for (const int v : step.inputs) program->inputs.push_back(graph.value(v).dtype);
  const auto number = [&](int v) {
    const int result = position(results, v);
    return result < 0 ? position(step.inputs, v) : static_cast<int>(step.inputs.size()) + result;
  };
  for (const int m : members) {
    const GraphStep& s = graph.steps[static_cast<size_t>(m)];
    backend::PointwiseStep p;
    s.op->pointwise(p);
    p.dtype = graph.value(s.outputs[0]).dtype;
    for (size_t k = 0; k < s.inputs.size(); ++k) p.in[k] = number(s.inputs[k]);
    for (const int v : s.inputs)
      if (graph.value(v).dtype == DType::f64) program->compute = DType::f64;
    if (p.dtype == DType::f64) program->compute = DType::f64;
    program->steps.push_back(p);
    op.parts += (op.parts.empty() ? "fused(" : ", ") + std::string(s.op->name());
    op.work += s.cost.flops;
    const int value = s.outputs[0];
    if (!groups.leaves_group(value)) continue;
    program->outputs.push_back(number(value));
    step.outputs.push_back(value);
  }
  op.parts += ")";
  op.shape = graph.value(results.back()).shape;
  op.program = std::move(program);
  const bool background = kernels == RegionKernels::background;
  if (kernels != RegionKernels::interpreted) {
    if (graph.value(results.back()).device.is_cpu()) {
      op.compiled = std::make_shared<acceleration::CompiledPointwise>(
          *op.program, acceleration::CompiledPointwise::Options{background, nullptr});
    } else {
      op.on_device = std::make_shared<acceleration::DevicePointwise>(*op.program, background);
    }
  }
  step.cost.flops = op.work;
  for (const int v : step.inputs) step.cost.bytes += static_cast<double>(bytes_of(graph.value(v)));
  for (const int v : step.outputs) step.cost.bytes += static_cast<double>(bytes_of(graph.value(v)));
  const GraphStep& last = graph.steps[static_cast<size_t>(members.back())];
  step.module = last.module, step.backward = last.backward, step.loc = last.loc;
  step.op = op.clone();
  return step;
}

// Sets each value's step after steps were removed or merged.
inline void number_steps(OpGraph& graph) {
  for (GraphValue& v : graph.values) v.step = -1;
  for (size_t s = 0; s < graph.steps.size(); ++s) {
    for (const int v : graph.steps[s].outputs) {
      const ValueKind kind = graph.steps[s].is_view() ? ValueKind::view : ValueKind::computed;
      const bool made = graph.value(v).kind == kind;
      if (made && graph.value(v).step < 0) graph.values[static_cast<size_t>(v)].step = static_cast<int>(s);
    }
  }
}

// Removes the steps whose results nothing reads.
inline void remove_dead_steps(OpGraph& graph) {
  std::vector<bool> needed(graph.values.size(), false);  // by root
  for (const int v : graph.outputs) needed[static_cast<size_t>(graph.root(v))] = true;
  const std::vector<bool> overwritten = graph.overwritten();
  for (size_t v = 0; v < needed.size(); ++v)  // the program sees what is written to its tensors
    needed[v] = needed[v] || (overwritten[v] && graph.values[v].kind == ValueKind::external);
  std::vector<bool> kept(graph.steps.size(), false);
  for (size_t s = graph.steps.size(); s-- > 0;) {
    const GraphStep& step = graph.steps[s];
    kept[s] =
        std::ranges::any_of(step.outputs, [&](int v) { return needed[static_cast<size_t>(graph.root(v))]; });
    if (!kept[s] || step.is_view()) continue;
    for (const int v : step.inputs) {
      if (v >= 0) needed[static_cast<size_t>(graph.root(v))] = true;
    }
  }
  std::vector<GraphStep> steps;
  for (size_t s = 0; s < graph.steps.size(); ++s) {
    if (kept[s]) steps.push_back(std::move(graph.steps[s]));
  }
  graph.steps = std::move(steps);
  number_steps(graph);
}

// Fuses the elementwise steps of `graph`. Values keep their numbers; a value that nothing needs in memory any
// more has no step.
inline Fused fuse(OpGraph graph, const FusionOptions& options = {}) {
  Fused out;
  remove_dead_steps(graph);
  StepGroups groups(graph, options.memory_budget, options.max_steps);
  out.peak_before = groups.peak_before();
  const auto name_of_step = [&](int s) {
    return std::string(graph.steps[static_cast<size_t>(s)].op->name());
  };
  for (size_t s = 0; s < graph.steps.size(); ++s) {
    if (graph.steps[s].is_view()) continue;
    for (const int v : graph.steps[s].inputs) {
      if (v < 0) continue;  // an operand that the call omitted
      const GraphValue& operand = graph.value(v);
      if (operand.kind != ValueKind::computed || operand.step < 0) continue;
      std::string reason = groups.merge(operand.step, static_cast<int>(s));
      if (!reason.empty())
        out.refused.push_back({name_of_step(operand.step), graph.steps[s].op->name(), std::move(reason)});
    }
  }
  out.peak_after = groups.peak();
  std::vector<GraphStep> steps;
  for (size_t s = 0; s < graph.steps.size(); ++s) {
    const int group = groups.group(static_cast<int>(s));
    if (groups.members(group).size() == 1) {
      steps.push_back(std::move(graph.steps[s]));
    } else if (groups.end(group) == static_cast<int>(s)) {
      steps.push_back(fused_step(graph, groups, group, options.kernels));
    } else {
      continue;
    }
  }
  graph.steps = std::move(steps);
  number_steps(graph);
  out.graph = std::move(graph);
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
