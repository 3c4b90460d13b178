// Groups of steps: which elementwise steps of a graph run as one.
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

  // Merges the groups of two steps and returns an empty text, or changes nothing and says why not:
  // difference() of the two steps; more than max_steps members together; early_reader() of the members at
  // `consumer`; too_large() of the merged group; or a peak() of the merged groups above both the budget and
  // the peak before the merge. The merged group is that of the consumer, and ends at `consumer`, a step that
  // is not before any other member. Two steps of one group are merged already.
  std::string merge(int producer, int consumer) {
    const int a = group(producer), b = group(consumer);
    if (a == b) return "";
    if (std::string reason = difference(producer, consumer); !reason.empty()) return reason;
    std::vector<int> all = members(a);
    all.insert(all.end(), members(b).begin(), members(b).end());
    if (static_cast<int>(all.size()) > max_steps_)
      return "a group has at most " + std::to_string(max_steps_) + " steps";
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

  // True if a step outside of the value's group reads the value, itself or through a view, or if it is a
  // result of the graph, itself or through a view. Then it must be in memory. `value` owns memory and has a
  // step.
  bool leaves_group(int value) const {
    if (is_output_[static_cast<size_t>(value)]) return true;
    const int own = group(graph_.value(value).step);
    return std::ranges::any_of(readers_[static_cast<size_t>(value)],
                               [&](int reader) { return group(reader) != own; });
  }

  // The largest sum of live bytes over all steps if every group runs as one step at its end. Blocks of memory
  // are those of liveness(), without the values that do not leave a group of several steps. A value lives
  // from the end of its group to the last end of a group that reads it, and a result of the graph to the last
  // step.
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

  // Why the steps `all` cannot run together at step `end`, or an empty text. A step outside of `all`, whose
  // group ends before `end`, reads a result of a step of `all`: it would come too late, and there would be a
  // cycle if `all` needed what this reader makes. Or a step of `all` reads a result of a step of `all`, and
  // some step reads that result through a view (direct_ is false for it): it must be in memory before it is
  // read.
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
