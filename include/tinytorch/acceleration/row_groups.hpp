// Row groups: which steps of a graph become a row program (row_program.hpp).
//
// A group begins with a reduction of whole rows: of the last dimensions of a contiguous value. Its neighbours
// join, one by one, if each of their operands and results has all elements of those rows, one number for each
// row, one row for all rows, or one number. As in step_groups.hpp, a group runs at the place of its last
// step, so nobody outside may read a result of it before that.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <tinytorch/acceleration/device_rows.hpp>
#include <tinytorch/acceleration/fusion.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// The rows of a reduction: `rows` of them, of `length` elements each.
struct RowDomain {
  int64_t rows = 0, length = 0;
  bool operator==(const RowDomain&) const = default;
};

inline constexpr size_t kMostRowSteps = 48;  // of a group

struct RowFusionOptions {
  int64_t memory_budget = 0;  // largest peak of live bytes; 0: the peak before
  RegionKernels kernels = RegionKernels::background;
  // True: also where it does not pay. On a CPU, values that are in its caches anyway gain nothing, and 16-bit
  // values next to nothing, because their conversions take longer than memory: 0.9 to 1.05 times the speed of
  // the operations, where f32 has 1.2 to 2.5 times. A row that is longer than a cache is no tile, and the
  // values between its steps, which the memory plan does not contain, would be large.
  bool everywhere = false;
};

class RowGroups {
 public:
  explicit RowGroups(const OpGraph& graph, bool everywhere = false)
      : graph_(graph),
        everywhere_(everywhere),
        overwritten_(graph.overwritten()),
        readers_(graph.values.size()),
        group_(graph.steps.size()),
        groups_(graph.steps.size()) {
    for (size_t s = 0; s < graph.steps.size(); ++s) {
      const int step = static_cast<int>(s);
      group_[s] = step;
      groups_[s] = {{step}, step, domain_of(graph.steps[s])};
      if (graph.steps[s].is_view()) continue;
      for (const int v : graph.steps[s].inputs)
        if (v >= 0) readers_[static_cast<size_t>(graph.root(v))].push_back(step);
    }
    for (size_t s = 0; s < graph.steps.size(); ++s)
      if (groups_[s].domain && !fits(static_cast<int>(s), *groups_[s].domain)) groups_[s].domain.reset();
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t s = 0; s < graph.steps.size(); ++s) {
        if (graph.steps[s].is_view()) continue;
        for (const int v : graph.steps[s].inputs) {
          if (v < 0) continue;
          const GraphValue& root = graph.root_of(v);
          if (root.kind == ValueKind::computed && root.step >= 0)
            changed = merge(root.step, static_cast<int>(s)) || changed;
        }
      }
    }
  }

  // The steps of the group that ends at step s, in order, if it has a reduction and other steps; else none.
  std::vector<int> ending_at(int s) const {
    const Group& g = groups_[static_cast<size_t>(group_[static_cast<size_t>(s)])];
    return g.end == s && g.domain && g.members.size() > 1 ? g.members : std::vector<int>();
  }
  bool is_member(int s) const {
    const Group& g = groups_[static_cast<size_t>(group_[static_cast<size_t>(s)])];
    return g.domain && g.members.size() > 1;
  }
  RowDomain domain(int s) const {
    return *groups_[static_cast<size_t>(group_[static_cast<size_t>(s)])].domain;
  }

  // The extent of operand x of a step with this result, as the rows see it; nullopt if it has none of the
  // four.
  static std::optional<RowExtent> extent(const GraphValue& x, const Shape& result, RowDomain d) {
    if (x.shape.numel() == 1) return RowExtent::constant;
    if (!is_contiguous(x.shape, x.strides) || x.shape.size() > result.size()) return std::nullopt;
    const int missing = result.size() - x.shape.size();
    const auto size = [&](int k) { return k < missing ? int64_t{1} : x.shape[k - missing]; };
    const bool whole = result.numel() == d.rows * d.length;
    if (!whole && result.numel() != d.rows) return std::nullopt;
    int split = 0;  // the first dimension within a row
    for (int64_t before = 1; before != d.rows; ++split) {
      if (split == result.size()) return std::nullopt;
      before *= result[split];
    }
    bool all = true, outer = true, inner = true, first_one = true, last_one = true;
    for (int k = 0; k < result.size(); ++k) {
      const bool same = size(k) == result[k], one = size(k) == 1;
      all = all && same;
      (k < split ? outer : inner) = (k < split ? outer : inner) && same;
      (k < split ? first_one : last_one) = (k < split ? first_one : last_one) && one;
    }
    if (all) return whole ? RowExtent::full : RowExtent::row;
    if (whole && outer && last_one) return RowExtent::row;
    if (whole && inner && first_one) return RowExtent::line;
    return std::nullopt;
  }
  // The extent of a result.
  static std::optional<RowExtent> extent_of_result(const GraphValue& x, RowDomain d) {
    if (!is_contiguous(x.shape, x.strides)) return std::nullopt;
    int64_t before = 1;
    int k = 0;
    while (before < d.rows && k < x.shape.size()) before *= x.shape[k++];
    if (before != d.rows) return std::nullopt;
    const int64_t n = x.shape.numel();
    return n == d.rows * d.length ? std::optional(RowExtent::full)
           : n == d.rows          ? std::optional(RowExtent::row)
                                  : std::nullopt;
  }

 private:
  struct Group {
    std::vector<int> members;  // ascending
    int end = 0;
    std::optional<RowDomain> domain;  // if it has a reduction
  };

  bool pays(const GraphValue& x, int64_t length) const {
    if (everywhere_) return true;
    if (!x.device.is_cpu()) return acceleration::has_row_kernel(x.shape.numel() / length, length);
    return !is_16_bit(x.dtype) && x.shape.numel() >= kInCache && length <= kLongTile;
  }

  // The rows of a reduction that a row program can have.
  std::optional<RowDomain> domain_of(const GraphStep& s) const {
    ReductionStep reduction;
    using enum backend::ReduceFn;
    if (!s.op->reduction(reduction) || s.inputs.size() != 1 || s.inputs[0] < 0) return std::nullopt;
    if (reduction.fn != sum && reduction.fn != max && reduction.fn != min) return std::nullopt;
    const GraphValue& x = graph_.value(s.inputs[0]);
    const int rank = x.shape.size();
    if (rank == 0) return std::nullopt;
    std::vector<bool> reduced(static_cast<size_t>(rank), reduction.dims.empty());
    for (const int64_t d : reduction.dims) reduced[static_cast<size_t>(d < 0 ? d + rank : d)] = true;
    const auto first = std::ranges::find(reduced, true);
    if (std::find(first, reduced.end(), false) != reduced.end())
      return std::nullopt;  // not the last dimensions
    int64_t count = 1;
    for (auto d = first - reduced.begin(); d < rank; ++d) count *= x.shape[static_cast<int>(d)];
    if (count < 2 || x.shape.numel() == 0 || !pays(x, count) || !is_floating(x.dtype) ||
        !is_contiguous(x.shape, x.strides))
      return std::nullopt;
    return RowDomain{x.shape.numel() / count, count};
  }

  static const backend::PointwiseProgram* program_of(const GraphStep& s) {
    const auto* const fused = dynamic_cast<const FusedPointwise*>(s.op.get());
    return fused ? fused->program.get() : nullptr;
  }
  bool is_f64(const GraphStep& s) const {
    return graph_.value(s.outputs[0]).dtype == DType::f64 || std::ranges::any_of(s.inputs, [&](int v) {
             return v >= 0 && graph_.value(v).dtype == DType::f64;
           });
  }
  // True if the step can be a part of a program of these rows.
  bool fits(int step, RowDomain d) const {
    const GraphStep& s = graph_.steps[static_cast<size_t>(step)];
    if (s.is_view() || std::ranges::find(s.inputs, -1) != s.inputs.end()) return false;
    for (const int v : s.inputs)
      if (overwritten_[static_cast<size_t>(graph_.root(v))]) return false;
    for (const int v : s.outputs) {
      const GraphValue& x = graph_.value(v);
      if (x.kind != ValueKind::computed || x.step != step || overwritten_[static_cast<size_t>(v)] ||
          !extent_of_result(x, d))
        return false;
    }
    if (const auto own = domain_of(s)) return *own == d && is_floating(graph_.value(s.outputs[0]).dtype);
    backend::PointwiseStep ignored;
    if (!program_of(s) && (!s.op->pointwise(ignored) || s.outputs.size() != 1)) return false;
    const DType compute = is_f64(s) ? DType::f64 : DType::f32;
    const auto fits_type = [&](int v) { return backend::pointwise_dtype(graph_.value(v).dtype, compute); };
    return std::ranges::all_of(s.outputs, fits_type) && std::ranges::all_of(s.inputs, [&](int v) {
             return fits_type(v) && extent(graph_.value(v), graph_.value(s.outputs[0]).shape, d);
           });
  }
  // True if a member may read `v`, whose memory another member computes: all of it, in the same order.
  bool direct(int v) const {
    const GraphValue &x = graph_.value(v), &root = graph_.root_of(v);
    return x.kind != ValueKind::view || (x.offset == 0 && x.shape.numel() == root.shape.numel() &&
                                         is_contiguous(x.shape, x.strides) && x.dtype == root.dtype);
  }

  // True if the step reads value `v` of its group by the rows by which it was computed. A number for each of
  // n rows of n elements, for example, could be read as one row for all rows.
  bool read_as_computed(int v, const GraphStep& s, RowDomain d) const {
    if (domain_of(s)) return true;
    const auto read = extent(graph_.value(v), graph_.value(s.outputs[0]).shape, d);
    return read == RowExtent::constant || read == extent_of_result(graph_.root_of(v), d);
  }

  bool merge(int producer, int consumer) {
    const int a = group_[static_cast<size_t>(producer)], b = group_[static_cast<size_t>(consumer)];
    if (a == b) return false;
    Group &from = groups_[static_cast<size_t>(a)], &to = groups_[static_cast<size_t>(b)];
    if (!from.domain && !to.domain) return false;
    if (from.domain && to.domain && !(*from.domain == *to.domain)) return false;
    const RowDomain d = from.domain ? *from.domain : *to.domain;
    Group both{from.members, std::max(from.end, to.end), d};
    both.members.insert(both.members.end(), to.members.begin(), to.members.end());
    std::ranges::sort(both.members);
    if (both.members.size() > kMostRowSteps) return false;
    const bool wide = is_f64(graph_.steps[static_cast<size_t>(both.members[0])]);
    for (const int s : both.members)
      if (!fits(s, d) || is_f64(graph_.steps[static_cast<size_t>(s)]) != wide) return false;
    if (!runs_at_end(both)) return false;
    for (const int s : both.members) group_[static_cast<size_t>(s)] = b;
    to = std::move(both);
    from = {};
    return true;
  }
  bool runs_at_end(const Group& g) const {
    const auto inside = [&](int s) { return std::ranges::binary_search(g.members, s); };
    for (const int s : g.members) {
      const GraphStep& step = graph_.steps[static_cast<size_t>(s)];
      for (const int v : step.inputs) {
        const GraphValue& root = graph_.root_of(v);
        const bool own = root.kind == ValueKind::computed && root.step >= 0 && inside(root.step);
        if (own && (!direct(v) || !read_as_computed(v, step, *g.domain))) return false;
      }
      for (const int v : step.outputs) {
        for (const int reader : readers_[static_cast<size_t>(v)]) {
          const Group& other = groups_[static_cast<size_t>(group_[static_cast<size_t>(reader)])];
          if (!inside(reader) && other.end <= g.end) return false;
        }
      }
    }
    return true;
  }

  static constexpr int64_t kInCache = int64_t{1} << 16, kLongTile = int64_t{1} << 18;  // elements

  const OpGraph& graph_;
  const bool everywhere_;
  const std::vector<bool> overwritten_;
  std::vector<std::vector<int>> readers_;  // of each root
  std::vector<int> group_;                 // of each step
  std::vector<Group> groups_;
};

// The row program of a group, and its step.
class RowsStep {
 public:
  RowsStep(const OpGraph& graph, const std::vector<int>& members, RowDomain domain)
      : graph_(graph), members_(members), domain_(domain) {
    program_->rows = domain.rows, program_->length = domain.length;
    for (const int m : members) add_inputs(graph.steps[static_cast<size_t>(m)]);
    program_->inputs = program_->values.size();
    for (const int m : members) add_step(graph.steps[static_cast<size_t>(m)]);
    op_.parts += ")";
    program_->find_last_reads();
    add_outputs();
  }

  GraphStep step(RegionKernels kernels) {
    for (const int v : step_.inputs) step_.cost.bytes += static_cast<double>(bytes_of(graph_.value(v)));
    for (const int v : step_.outputs) step_.cost.bytes += static_cast<double>(bytes_of(graph_.value(v)));
    step_.cost.flops = op_.work;
    const GraphStep& last = graph_.steps[static_cast<size_t>(members_.back())];
    step_.module = last.module, step_.backward = last.backward, step_.loc = last.loc;
    op_.program = program_;
    if (!device_of(graph_).is_cpu() && kernels != RegionKernels::interpreted) {
      op_.on_device =
          std::make_shared<acceleration::DeviceRows>(op_.program, kernels == RegionKernels::background);
    }
    step_.op = op_.clone();
    return std::move(step_);
  }

 private:
  bool inside(int v) const {
    const GraphValue& root = graph_.root_of(v);
    return root.kind == ValueKind::computed && std::ranges::binary_search(members_, root.step);
  }
  RowExtent extent(int v, const GraphStep& s) const {
    if (ReductionStep ignored; s.op->reduction(ignored)) return RowExtent::full;
    return *RowGroups::extent(graph_.value(v), graph_.value(s.outputs[0]).shape, domain_);
  }
  // A value that is read in two ways is two inputs.
  void add_inputs(const GraphStep& s) {
    for (const int v : s.inputs) {
      if (inside(v)) continue;
      const RowExtent e = extent(v, s);
      if (!inputs_.try_emplace({v, e}, static_cast<int>(program_->values.size())).second) continue;
      program_->values.push_back({e, graph_.value(v).dtype, graph_.value(v).shape});
      step_.inputs.push_back(v);
    }
  }
  void add_step(const GraphStep& s) {
    RowStep part;
    for (const int v : s.inputs) {
      const int number = inside(v) ? results_.at(graph_.root(v)) : inputs_.at({v, extent(v, s)});
      part.in.push_back({number, graph_.value(v).shape});
    }
    for (const int v : s.outputs) {
      const GraphValue& x = graph_.value(v);
      results_[v] = static_cast<int>(program_->values.size());
      part.out.push_back(results_[v]);
      program_->values.push_back({*RowGroups::extent_of_result(x, domain_), x.dtype, x.shape});
    }
    part.op = s.op->clone();
    program_->steps.push_back(std::move(part));
    op_.parts += (op_.parts.empty() ? "rows(" : ", ") + std::string(s.op->name());
    op_.work += s.cost.flops;
  }
  // The values that other steps or the caller read.
  void add_outputs() {
    std::vector<bool> needed(graph_.values.size(), false);
    for (const int v : graph_.outputs) needed[static_cast<size_t>(graph_.root(v))] = true;
    for (size_t s = 0; s < graph_.steps.size(); ++s) {
      if (graph_.steps[s].is_view() || std::ranges::binary_search(members_, static_cast<int>(s))) continue;
      for (const int v : graph_.steps[s].inputs)
        if (v >= 0) needed[static_cast<size_t>(graph_.root(v))] = true;
    }
    for (const auto& [value, number] : results_) {
      if (!needed[static_cast<size_t>(value)]) continue;
      program_->outputs.push_back(number);
      step_.outputs.push_back(value);
    }
  }

  const OpGraph& graph_;
  const std::vector<int>& members_;
  RowDomain domain_;
  std::shared_ptr<RowProgram> program_ = std::make_shared<RowProgram>();
  FusedRows op_;
  GraphStep step_;
  std::map<std::pair<int, RowExtent>, int> inputs_;  // the numbers in the program
  std::map<int, int> results_;
};

// Makes row programs of the groups of `graph`, unless live bytes would then rise above both the budget
// and what they are.
inline void fuse_rows(OpGraph& graph, const RowFusionOptions& options = {}) {
  const RowGroups groups(graph, options.everywhere);
  OpGraph fused;
  bool any = false;
  for (size_t s = 0; s < graph.steps.size(); ++s) {
    const int step = static_cast<int>(s);
    if (const std::vector<int> members = groups.ending_at(step); !members.empty()) {
      fused.steps.push_back(RowsStep(graph, members, groups.domain(step)).step(options.kernels));
      any = true;
    } else if (!groups.is_member(step)) {
      fused.steps.push_back(copy_of(graph.steps[s]));
    }
  }
  if (!any) return;
  fused.values = graph.values, fused.inputs = graph.inputs, fused.outputs = graph.outputs;
  number_steps(fused);
  if (liveness(fused).peak() > std::max(liveness(graph).peak(), options.memory_budget)) return;
  graph.steps = std::move(fused.steps), graph.values = std::move(fused.values);
}

}  // namespace tinytorch::inline TT_BUILD
