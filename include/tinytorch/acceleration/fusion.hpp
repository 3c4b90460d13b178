// Fusion: neighbouring elementwise steps become one step, whose intermediate values never reach memory.
//
// Steps are visited in order, and a step joins the group of a producer if
//   - both are elementwise, have results of one shape, and are computed in one type;
//   - the group can run at the place of its last step: nobody outside the group reads a result of the group
//     before that. This also excludes cycles through a step outside;
//   - the peak of live bytes stays within the budget. A group runs later than its first steps did, so it
//     keeps their operands alive for longer.
// Source: the pattern lattice of Chen et al., "TVM" (2018), restricted to elementwise steps.
#pragma once

#include <algorithm>
#include <string>
#include <tinytorch/acceleration/liveness.hpp>
#include <tinytorch/acceleration/region.hpp>
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

// The groups of a graph's steps while they grow.
class StepGroups {
 public:
  StepGroups(const OpGraph& graph, const FusionOptions& options)
      : graph_(graph),
        options_(options),
        group_(graph.steps.size()),
        end_(graph.steps.size()),
        members_(graph.steps.size()),
        readers_(graph.values.size()),
        is_output_(graph.values.size(), false),
        direct_(graph.values.size(), true) {
    for (size_t s = 0; s < graph.steps.size(); ++s) {
      group_[s] = end_[s] = static_cast<int>(s);
      members_[s] = {static_cast<int>(s)};
      if (graph.steps[s].is_view()) continue;
      for (const int v : graph.steps[s].inputs) {
        if (v < 0) continue;
        const auto root = static_cast<size_t>(graph.root(v));
        if (readers_[root].empty() || readers_[root].back() != static_cast<int>(s))
          readers_[root].push_back(static_cast<int>(s));
        if (graph.root(v) != v) direct_[root] = false;
      }
    }
    for (const int v : graph.outputs) is_output_[static_cast<size_t>(graph.root(v))] = true;
    pointwise_.resize(graph.steps.size());
    for (size_t s = 0; s < graph.steps.size(); ++s) pointwise_[s] = is_pointwise(graph.steps[s]);
    before_ = current_ = peak();
  }

  int64_t peak_before() const { return before_; }
  int64_t budget() const { return options_.memory_budget > 0 ? options_.memory_budget : before_; }

  // Merges the groups of two steps, or says why not. The consumer's group ends at `consumer`.
  std::string merge(int producer, int consumer) {
    const int a = group(producer), b = group(consumer);
    if (a == b) return "";
    if (std::string reason = difference(producer, consumer); !reason.empty()) return reason;
    std::vector<int> all = members(a);
    all.insert(all.end(), members(b).begin(), members(b).end());
    if (static_cast<int>(all.size()) > options_.max_steps)
      return "a group has at most " + std::to_string(options_.max_steps) + " steps";
    if (std::string reason = early_reader(all, consumer); !reason.empty()) return reason;
    const std::vector<int> of_a = members(a), of_b = members(b);
    const int end_a = end_[static_cast<size_t>(a)], end_b = end_[static_cast<size_t>(b)];
    set(b, all, consumer);
    const int64_t bytes = peak();
    std::string reason = too_large(b);
    if (reason.empty() && bytes > std::max(budget(), current_)) {
      reason =
          "live bytes would rise to " + std::to_string(bytes) + ", the budget is " + std::to_string(budget());
    }
    if (!reason.empty()) {
      set(a, of_a, end_a);
      set(b, of_b, end_b);
      return reason;
    }
    current_ = bytes;
    return "";
  }

  bool pointwise(int step) const { return pointwise_[static_cast<size_t>(step)]; }
  int group(int step) const { return group_[static_cast<size_t>(step)]; }
  int end(int group) const { return end_[static_cast<size_t>(group)]; }
  const std::vector<int>& members(int group) const { return members_[static_cast<size_t>(group)]; }

  // True if the value is read outside of its group, so that it must be in memory.
  bool leaves_group(int value) const {
    if (is_output_[static_cast<size_t>(value)]) return true;
    const int own = group(graph_.value(value).step);
    return std::ranges::any_of(readers_[static_cast<size_t>(value)],
                               [&](int reader) { return group(reader) != own; });
  }

  // Peak of live bytes if every group runs as one step at its end.
  int64_t peak() const {
    std::vector<LiveBlock> blocks;
    const int steps = static_cast<int>(graph_.steps.size());
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const GraphValue& x = graph_.values[v];
      if (x.kind != ValueKind::computed || x.step < 0) continue;
      if (members(group(x.step)).size() > 1 && !leaves_group(static_cast<int>(v))) continue;
      const int made = end(group(x.step));
      int last = is_output_[v] ? steps - 1 : made;
      for (const int r : readers_[v]) last = std::max(last, end(group(r)));
      blocks.push_back({bytes_of(x), made, last});
    }
    return tinytorch::peak(timeline(blocks, steps));
  }

 private:
  void set(int group, const std::vector<int>& members, int end) {
    members_[static_cast<size_t>(group)] = members;
    end_[static_cast<size_t>(group)] = end;
    for (const int s : members) group_[static_cast<size_t>(s)] = group;
  }

  DType compute_type(const GraphStep& s) const {
    const auto is_f64 = [&](int v) { return v >= 0 && graph_.value(v).dtype == DType::f64; };
    const bool wide = std::ranges::any_of(s.inputs, is_f64) || is_f64(s.outputs[0]);
    return wide ? DType::f64 : DType::f32;
  }
  bool is_pointwise(const GraphStep& s) const {
    backend::PointwiseStep step;
    if (!s.op->pointwise(step) || s.outputs.size() != 1) return false;
    const GraphValue& out = graph_.value(s.outputs[0]);
    if (!is_contiguous(out.shape, out.strides)) return false;
    const DType compute = compute_type(s);
    const auto fits = [&](int v) {
      return v >= 0 && backend::pointwise_dtype(graph_.value(v).dtype, compute);
    };
    return std::ranges::all_of(s.inputs, fits) && fits(s.outputs[0]);
  }

  std::string difference(int producer, int consumer) const {
    if (!pointwise(producer) || !pointwise(consumer)) {
      const int other = pointwise(producer) ? consumer : producer;
      return std::string(graph_.steps[static_cast<size_t>(other)].op->name()) + " is not elementwise";
    }
    const GraphStep &p = graph_.steps[static_cast<size_t>(producer)],
                    &c = graph_.steps[static_cast<size_t>(consumer)];
    if (!(graph_.value(p.outputs[0]).shape == graph_.value(c.outputs[0]).shape))
      return "their results have different shapes";
    if (compute_type(p) != compute_type(c)) return "they are computed in different types";
    return "";
  }

  // Why a kernel of the group's device cannot take its operands or results.
  std::string too_large(int group) const {
    std::vector<int> operands;
    int results = 0;
    for (const int s : members(group)) {
      const GraphStep& step = graph_.steps[static_cast<size_t>(s)];
      results += leaves_group(step.outputs[0]) ? 1 : 0;
      for (const int v : step.inputs) {
        const GraphValue& x = graph_.value(v);
        const bool inside = x.kind == ValueKind::computed && x.step >= 0 && this->group(x.step) == group;
        if (!inside && std::ranges::find(operands, v) == operands.end()) operands.push_back(v);
      }
    }
    const GraphStep& first = graph_.steps[static_cast<size_t>(members(group)[0])];
    if (graph_.value(first.outputs[0]).device.is_cpu()) return "";
    if (members(group).size() > backend::kDeviceSteps) return "a kernel on a GPU takes at most 64 steps";
    if (operands.size() > backend::kDeviceOperands || results > backend::kDeviceResults)
      return "a kernel on a GPU takes at most 16 operands and 16 results";
    return "";
  }

  // Why the union of groups cannot run at step `end`: a reader outside needs a result earlier, or a reader
  // inside needs it in another layout.
  std::string early_reader(const std::vector<int>& all, int end) const {
    const auto inside = [&](int step) { return std::ranges::find(all, step) != all.end(); };
    for (const int s : all) {
      const int value = graph_.steps[static_cast<size_t>(s)].outputs[0];
      for (const int reader : readers_[static_cast<size_t>(value)]) {
        const std::string name = graph_.steps[static_cast<size_t>(reader)].op->name();
        if (inside(reader) && !direct_[static_cast<size_t>(value)])
          return name + " reads a view of a result, which must be in memory";
        if (!inside(reader) && this->end(group(reader)) <= end)
          return name + ", which is not fused, needs a result of the group earlier";
      }
    }
    return "";
  }

  const OpGraph& graph_;
  FusionOptions options_;
  std::vector<int> group_, end_;  // of each step; of each group
  std::vector<std::vector<int>> members_, readers_;
  std::vector<bool> is_output_, direct_, pointwise_;
  int64_t before_ = 0, current_ = 0;  // peaks: of the graph, and with the groups so far
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
      if (graph.value(v).kind == ValueKind::computed || graph.steps[s].is_view())
        graph.values[static_cast<size_t>(v)].step = static_cast<int>(s);
    }
  }
}

// Removes the steps whose results nothing reads.
inline void remove_dead_steps(OpGraph& graph) {
  std::vector<bool> needed(graph.values.size(), false);  // by root
  for (const int v : graph.outputs) needed[static_cast<size_t>(graph.root(v))] = true;
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
  StepGroups groups(graph, options);
  out.peak_before = groups.peak_before();
  const auto name_of_step = [&](int s) {
    return std::string(graph.steps[static_cast<size_t>(s)].op->name());
  };
  for (size_t s = 0; s < graph.steps.size(); ++s) {
    if (graph.steps[s].is_view()) continue;
    for (const int v : graph.steps[s].inputs) {
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
