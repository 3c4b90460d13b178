// Groups of steps: which elementwise steps of a graph run as one.
//
// The frame of a course header: it has the given parts, and includes the functions of task 6.14. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <string>
#include <tinytorch/acceleration/liveness.hpp>
#include <tinytorch/backend/pointwise.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// The groups of a graph's steps while they grow. At first each step is a group of its own; group g has the
// number of one of its steps. memory_budget 0: the peak of live bytes before any merge.
class StepGroups {
 public:
  StepGroups(const OpGraph& graph, int64_t memory_budget, int max_steps)
      : graph_(graph),
        memory_budget_(memory_budget),
        max_steps_(max_steps),
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
    const std::vector<bool> overwritten = graph.overwritten();  // these reads and writes stay where they are
    const auto fixed = [&](int v) { return v >= 0 && overwritten[static_cast<size_t>(graph.root(v))]; };
    for (size_t s = 0; s < graph.steps.size(); ++s) {
      const GraphStep& step = graph.steps[s];
      pointwise_[s] = is_pointwise(step) && std::ranges::none_of(step.inputs, fixed) &&
                      std::ranges::none_of(step.outputs, fixed);
    }
    before_ = current_ = peak();
  }

  int64_t peak_before() const { return before_; }
  int64_t budget() const { return memory_budget_ > 0 ? memory_budget_ : before_; }

  std::string merge(int producer, int consumer);  // task 6.14

  bool pointwise(int step) const { return pointwise_[static_cast<size_t>(step)]; }
  int group(int step) const { return group_[static_cast<size_t>(step)]; }
  int end(int group) const { return end_[static_cast<size_t>(group)]; }
  const std::vector<int>& members(int group) const { return members_[static_cast<size_t>(group)]; }

  bool leaves_group(int value) const;  // task 6.14
  int64_t peak() const;                // task 6.14

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
    size_t results = 0;
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
    if (graph_.value(first.outputs[0]).device.is_cpu()) {
      const bool fits = operands.size() <= backend::kKernelOperands && results <= backend::kKernelOperands;
      return fits ? "" : "a compiled kernel takes at most 32 operands and 32 results";
    }
    if (members(group).size() > backend::kDeviceSteps) return "a kernel on a GPU takes at most 64 steps";
    if (operands.size() > backend::kDeviceOperands || results > backend::kDeviceResults)
      return "a kernel on a GPU takes at most 16 operands and 16 results";
    return "";
  }

  std::string early_reader(const std::vector<int>& all, int end) const;  // task 6.14

  const OpGraph& graph_;
  int64_t memory_budget_;
  int max_steps_;
  std::vector<int> group_, end_;           // of each step; of each group
  std::vector<std::vector<int>> members_;  // of each group
  // These have an entry for each value that owns memory. readers_ are the steps that read it, directly or
  // through a view; is_output_ tells whether it is a result of the graph, and direct_ whether no step reads
  // it through a view.
  std::vector<std::vector<int>> readers_;
  std::vector<bool> is_output_, direct_;
  std::vector<bool> pointwise_;       // of each step
  int64_t before_ = 0, current_ = 0;  // peaks: of the graph, and with the groups so far
};

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/acceleration/step_groups.hpp>
