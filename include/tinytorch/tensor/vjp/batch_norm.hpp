// Derivatives of batch_norm (training and inference) and group_norm.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/batch_norm.hpp>
#include <tinytorch/backend/cpu/group_norm.hpp>
#include <tinytorch/backend/layout.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/vjp/norm.hpp>

namespace tinytorch::inline TT_BUILD {

// Gives Spec::layout_like: i, the number of the input x [N, C, ...], if x is channels-last and on the CPU;
// else -1, so that the result is row-major.
inline int8_t batch_norm_layout(const Tensor& x, int8_t i) {
  return x.device().is_cpu() && backend::is_dense_channels_last(x.view_of()) ? i : int8_t{-1};
}

// dy, x, mean, var, weight, dmean, dvar (the last three may be undefined) -> those needed of dx, dweight,
// dbias, and the gradients of mean and var
struct BatchNormGrad final : Primitive<BatchNormGrad> {
  static constexpr const char* kName = "batch_norm_grad";
  WantedGrads grads;
  Shapes shapes;
  double eps;
  bool of_batch;
  BatchNormGrad(WantedGrads g, Shapes s, double e, bool b)
      : grads(std::move(g)), shapes(std::move(s)), eps(e), of_batch(b) {}
  Specs infer(const Tensors& in, Loc) const override {
    Specs specs = grads.specs(shapes, in[1].dtype());
    if (grads.wanted[0]) specs[0].layout_like = batch_norm_layout(in[1], 1);
    return specs;
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 10 * static_cast<double>(in[1].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const std::vector<backend::View> v = grads.views(out);
    TT_KERNEL(in[0], batch_norm_grad({v[0], v[1], v[2], v[3], v[4]}, in[0].view_of(), in[1].view_of(),
                                     in[2].view_of(), in[3].view_of(), view_or_none(in[4]), eps, of_batch,
                                     view_or_none(in[5]), view_or_none(in[6])));
  }
  bool differentiable() const override { return false; }
};

// dy, x, mean, rstd, weight -> those needed of dx, dweight, dbias
struct GroupNormGrad final : Primitive<GroupNormGrad> {
  static constexpr const char* kName = "group_norm_grad";
  WantedGrads grads;
  Shapes shapes;
  int64_t groups;
  GroupNormGrad(WantedGrads g, Shapes s, int64_t n) : grads(std::move(g)), shapes(std::move(s)), groups(n) {}
  Specs infer(const Tensors& in, Loc) const override { return grads.specs(shapes, in[1].dtype()); }
  double flops(const Tensors& in, const Tensors&) const override {
    return 10 * static_cast<double>(in[1].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const std::vector<backend::View> v = grads.views(out);
    TT_KERNEL(in[0], group_norm_grad(v[0], v[1], v[2], in[0].view_of(), in[1].view_of(), in[2].view_of(),
                                     in[3].view_of(), groups, view_or_none(in[4])));
  }
  bool differentiable() const override { return false; }
};

namespace vjp {

// Inputs x, weight, bias; outputs y, mean, var, each of which may have a gradient.
inline Tensors batch_norm_train(const Tensors& g, const Saved& s, double eps) {
  WantedGrads wanted{s.needs_grad};
  wanted.wanted.resize(5, false);
  Shapes shapes = s.input_shapes;
  shapes.resize(5);
  Tensors grads =
      wanted.spread(apply_all(BatchNormGrad(wanted, shapes, eps, true),
                              {g[0], s.inputs[0], s.outputs[1], s.outputs[2], s.inputs[1], g[1], g[2]}));
  grads.resize(3);
  return grads;
}

// Inputs x, mean, var, weight, bias; output y. The kernel's results are in the order x, weight, bias, mean,
// var.
inline Tensors batch_norm_infer(const Tensor& g, const Saved& s, double eps) {
  constexpr size_t kOrder[] = {0, 3, 4, 1, 2};
  WantedGrads wanted;
  Shapes shapes;
  for (size_t k : kOrder) {
    wanted.wanted.push_back(s.needs_grad[k]);
    shapes.push_back(s.input_shapes[k]);
  }
  const Tensors grads =
      wanted.spread(apply_all(BatchNormGrad(wanted, shapes, eps, false),
                              {g, s.inputs[0], s.inputs[1], s.inputs[2], s.inputs[3], Tensor(), Tensor()}));
  Tensors ordered(5);
  for (size_t k = 0; k < 5; ++k) ordered[kOrder[k]] = grads[k];
  for (size_t k : {size_t{1}, size_t{2}}) {  // the statistics may have a wider dtype than x
    if (ordered[k].defined()) ordered[k] = ordered[k].to(s.inputs[k].dtype());
  }
  return ordered;
}

// Inputs x, weight, bias; outputs y, mean, rstd.
inline Tensors group_norm(const Tensor& g, const Saved& s, int64_t groups) {
  const WantedGrads wanted{s.needs_grad};
  return wanted.spread(apply_all(GroupNormGrad(wanted, s.input_shapes, groups),
                                 {g, s.inputs[0], s.outputs[1], s.outputs[2], s.inputs[1]}));
}

}  // namespace vjp
}  // namespace tinytorch::inline TT_BUILD
#endif
