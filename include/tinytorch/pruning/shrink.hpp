// Structured pruning: whole channels and heads go, and tensors become smaller, so that any dense kernel is
// faster.
//
//   ShrinkPlan plan = plan_shrink(model, x, {.sparsity = 0.5});
//   mask_channels(model, plan);            // zeros: the same outputs as the model that is shrunk,
//   shrink(model, plan, &optimizer);       // and this one is smaller, with the state of its optimizer
//
// A group (groups.hpp) counts by the squares of all its weights, or by given scores of them. Groups that
// belong to the same tensors are ranked together, and the number that stays is rounded up to a multiple of 8,
// which vectors and tensor cores need. Layers take their sizes from their weights; a module that computes
// with a number of its own, such as heads, must derive it from a weight.
#pragma once

#include <tinytorch/layers/optimizer.hpp>
#include <tinytorch/pruning/groups.hpp>
#include <tinytorch/pruning/sparsity.hpp>

namespace tinytorch::inline TT_BUILD {

struct ShrinkOptions {
  double sparsity = 0.5;  // share of the groups of each family that goes
  int64_t multiple = 8;   // channels that stay are rounded up to a multiple of it; heads are not rounded
  // Returns true if a family may lose groups; its argument has the names of the family's parameters. An empty
  // function lets all families lose groups.
  std::function<bool(const std::set<std::string>&)> choose{};
  // Scores of single weights by the names of parameters, such as GradientScores::all(); a group counts by
  // their sum. A tensor without scores counts by its squares.
  std::map<std::string, Tensor> scores{};
};

struct ShrinkPlan {
  std::map<std::string, std::map<int, std::vector<int64_t>>>
      removed;  // name -> dimension -> ascending indices
  int64_t groups = 0, groups_removed = 0;
  std::set<std::string> unknown_ops;  // ops without a rule, whose channels stay
};

namespace pruning {

using Family = std::set<std::pair<std::string, int>>;  // the tensors and dimensions of a group

inline std::map<std::string, Tensor> tensors_by_name(const Module& model) {
  std::map<std::string, Tensor> out;
  for (const NamedTensors& all : {model.named_parameters(), model.named_buffers()})
    for (const NamedTensor& t : all) out.emplace(t.name, t.tensor);
  return out;
}

// The sum of scores of each index along a dimension.
inline std::vector<double> sums_along(const Tensor& scores, int dim) {
  const Tensor rows = scores.detach().to(cpu).to(DType::f64).transpose(0, dim).contiguous();
  const int64_t n = rows.size(0), each = n == 0 ? 0 : rows.numel() / n;
  std::vector<double> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n * each; ++i) out[static_cast<size_t>(i / each)] += rows.data<double>()[i];
  return out;
}
// The sum of squares of each index along a dimension of w.
inline std::vector<double> squares_along(const Tensor& w, int dim) {
  return sums_along(square(w.detach().to(DType::f64)), dim);
}
// The importance of each index of a parameter: by the given scores, or by squares.
inline std::vector<double> importance_along(const std::string& name, const Tensor& w, int dim,
                                            const ShrinkOptions& o, Loc loc) {
  const auto given = o.scores.find(name);
  if (given == o.scores.end()) return squares_along(w, dim);
  if (!given->second.defined() || !(given->second.shape() == w.shape())) {
    fail("TT-PRUNE-03", "plan_shrink: the scores of '" + name + "' do not have its shape, " + w.shape().str(),
         loc);
  }
  return sums_along(given->second, dim);
}

inline Tensor without(const Tensor& t, const std::map<int, std::vector<int64_t>>& removed) {
  Tensor out = t.detach();
  for (const auto& [dim, gone] : removed) {
    std::vector<int64_t> kept;
    for (int64_t i = 0; i < t.size(dim); ++i)
      if (!std::binary_search(gone.begin(), gone.end(), i)) kept.push_back(i);
    const auto count = static_cast<int64_t>(kept.size());
    out = index_select(out, dim, from_data(kept, {count}, cpu).to(t.device()));
  }
  return out.contiguous();
}

// Gives the holders of the handle `t` the values of `smaller`.
inline void become(const Tensor& t, const Tensor& smaller) {
  Tensor handle = t;
  handle.zero_grad();
  TensorImpl& impl = handle.checked();
  impl.storage = smaller.storage();
  impl.shape = smaller.shape();
  impl.strides = smaller.strides();
  impl.offset = smaller.offset();
}

// Chooses the groups of a family that are removed: the least important ones. If a group is one channel, the
// number of channels that stay is a multiple of o.multiple.
inline std::vector<size_t> groups_to_remove(const std::vector<size_t>& family,
                                            const std::vector<double>& importance, int64_t unit,
                                            const ShrinkOptions& o) {
  const auto all = static_cast<int64_t>(family.size());
  int64_t keep = all - removed_count(o.sparsity, all);
  if (unit == 1 && o.multiple > 1) keep = ceil_div(keep, o.multiple) * o.multiple;
  const int64_t gone = std::max<int64_t>(0, all - std::max<int64_t>(keep, 0));
  std::vector<size_t> order(family);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return importance[a] < importance[b]; });
  order.resize(static_cast<size_t>(gone));
  return order;
}

}  // namespace pruning

// Chooses the channels that are removed from a model that runs on x. Throws TT-PRUNE-02 for a sparsity
// outside [0, 1), TT-PRUNE-03 for scores of other shapes, TT-PRUNE-04 if a family would lose all its groups.
inline ShrinkPlan plan_shrink(Module& model, const Tensor& x, const ShrinkOptions& o = {}, TT_LOC) {
  const NoGrad no_grad;
  require_sparsity("plan_shrink", o.sparsity, loc);
  ChannelGraph graph(model, x, loc);
  const std::vector<ChannelGroup> groups = graph.groups();
  const std::map<std::string, Tensor> tensors = pruning::tensors_by_name(model);
  std::map<std::pair<std::string, int>, std::vector<double>> sums;
  std::vector<double> importance(groups.size());
  std::map<pruning::Family, std::vector<size_t>> families;
  std::map<pruning::Family, int64_t> units;  // the least number of indices of a group along a dimension
  for (size_t g = 0; g < groups.size(); ++g) {
    std::map<std::pair<std::string, int>, int64_t> counts;
    for (const ChannelMember& m : groups[g].members) {
      const std::pair<std::string, int> at{m.name, m.dim};
      const Tensor& t = tensors.at(m.name);
      if (t.rank() >= 2) {
        std::vector<double>& known = sums[at];
        if (known.empty()) known = pruning::importance_along(m.name, t, m.dim, o, loc);
        importance[g] += known[static_cast<size_t>(m.index)];
      }
      ++counts[at];
    }
    if (groups[g].pinned) continue;
    pruning::Family family;
    int64_t unit = INT64_MAX;
    for (const auto& [at, count] : counts) family.insert(at), unit = std::min(unit, count);
    families[family].push_back(g), units[family] = unit;
  }
  ShrinkPlan plan;
  plan.unknown_ops = graph.unknown();
  for (const auto& [family, members] : families) {
    std::set<std::string> names;
    for (const auto& [name, dim] : family) names.insert(name);
    if (o.choose && !o.choose(names)) continue;
    plan.groups += static_cast<int64_t>(members.size());
    const std::vector<size_t> gone = pruning::groups_to_remove(members, importance, units[family], o);
    if (gone.size() == members.size()) {
      fail("TT-PRUNE-04",
           "plan_shrink: a sparsity of " + std::to_string(o.sparsity) + " removes all " +
               std::to_string(members.size()) + " channels or heads of '" + *names.begin() +
               "'\n  hint: prune less, or leave this family out (ShrinkOptions::choose)",
           loc);
    }
    plan.groups_removed += static_cast<int64_t>(gone.size());
    for (const size_t g : gone)
      for (const ChannelMember& m : groups[g].members) plan.removed[m.name][m.dim].push_back(m.index);
  }
  for (auto& [name, dims] : plan.removed)
    for (auto& [dim, indices] : dims) std::sort(indices.begin(), indices.end());
  return plan;
}

// Sets everything that shrink() would remove to 0: then the model has the outputs of the shrunk one.
inline void mask_channels(Module& model, const ShrinkPlan& plan) {
  const NoGrad no_grad;
  const std::map<std::string, Tensor> tensors = pruning::tensors_by_name(model);
  for (const auto& [name, dims] : plan.removed)
    for (const auto& [dim, indices] : dims)
      for (const int64_t i : indices) tensors.at(name).slice(dim, i, i + 1).zero_();
}

// Removes the channels of the plan from the model's parameters and buffers and from the state of its
// optimizer. All handles of the tensors stay valid. Throws TT-PRUNE-03 if the plan is for other shapes; a
// captured graph must be captured again.
inline void shrink(Module& model, const ShrinkPlan& plan, Optimizer* optimizer = nullptr, TT_LOC) {
  const NoGrad no_grad;
  const std::map<std::string, Tensor> tensors = pruning::tensors_by_name(model);
  for (const auto& [name, dims] : plan.removed) {
    const auto found = tensors.find(name);
    for (const auto& [dim, gone] : dims) {
      if (found != tensors.end() && dim < found->second.rank() && gone.back() < found->second.size(dim) &&
          static_cast<int64_t>(gone.size()) < found->second.size(dim))
        continue;
      fail(
          "TT-PRUNE-03",
          "shrink: the plan does not fit '" + name + "'\n  hint: make a plan for this model, and use it once",
          loc);
    }
  }
  std::map<std::string, Shape> before;
  for (const auto& [name, dims] : plan.removed) {
    before.emplace(name, tensors.at(name).shape());
    pruning::become(tensors.at(name), pruning::without(tensors.at(name), dims));
  }
  if (!optimizer) return;
  // A copy in f32 that was the parameter itself is listed now, because the parameter has other memory.
  for (const auto& [key, tensor] : optimizer->state_dict()) {
    for (const auto& [name, dims] : plan.removed) {
      if (!key.starts_with(name + ".") || !(tensor.shape() == before.at(name))) continue;
      const bool same = key == name + ".master" && tensor.dtype() == tensors.at(name).dtype();
      pruning::become(tensor, same ? tensors.at(name).detach() : pruning::without(tensor, dims));
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD
