// Structured pruning: whole channels and heads go, and tensors become smaller, so that any dense kernel is
// faster.
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.9. It is cut
// from the library's header by modules/frames.py.
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
inline std::vector<double> squares_along(const Tensor& w, int dim);  // task 8.9
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

inline Tensor without(const Tensor& t, const std::map<int, std::vector<int64_t>>& removed);  // task 8.9

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

inline std::vector<size_t> groups_to_remove(const std::vector<size_t>& family,
                                            const std::vector<double>& importance, int64_t unit,
                                            const ShrinkOptions& o);  // task 8.9

}  // namespace pruning

// Task 8.9.
inline ShrinkPlan plan_shrink(Module& model, const Tensor& x, const ShrinkOptions& o = {}, TT_LOC);
inline void mask_channels(Module& model, const ShrinkPlan& plan);  // task 8.9
// Task 8.9.
inline void shrink(Module& model, const ShrinkPlan& plan, Optimizer* optimizer = nullptr, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/pruning/shrink.hpp>
