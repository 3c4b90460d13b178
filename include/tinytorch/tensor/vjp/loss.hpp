// Derivatives of the losses. cross_entropy recomputes its softmax from the logits and the saved log-sum-exp:
//   dx = g / count * (exp(x - lse) - (1 - s) onehot(t) - s / V),   s: label smoothing
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/loss.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

using backend::PointwiseLoss;

inline backend::LossReduction loss_reduction(Reduction r) {
  constexpr backend::LossReduction kSame[] = {backend::LossReduction::mean, backend::LossReduction::sum,
                                              backend::LossReduction::none};
  return kSame[static_cast<size_t>(r)];
}
inline backend::CrossEntropyParameters cross_entropy_parameters(const CrossEntropyOptions& o) {
  return {o.ignore_index, o.label_smoothing, loss_reduction(o.reduction)};
}

// grad, logits, target, lse -> dx
struct CrossEntropyGrad final : Primitive<CrossEntropyGrad> {
  static constexpr const char* kName = "cross_entropy_grad";
  CrossEntropyOptions options;
  explicit CrossEntropyGrad(CrossEntropyOptions o) : options(o) {}
  Specs infer(const Tensors& in, Loc) const override { return {{in[1].shape(), in[1].dtype()}}; }
  double flops(const Tensors& in, const Tensors&) const override {
    return 13 * static_cast<double>(in[1].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], cross_entropy_grad(out[0].view_of(), in[0].view_of(), in[1].view_of(), in[2].view_of(),
                                         in[3].view_of(), cross_entropy_parameters(options)));
  }
  bool differentiable() const override { return false; }
};

// grad, x, target -> dx or dtarget
struct PointwiseLossGrad final : Primitive<PointwiseLossGrad> {
  static constexpr const char* kName = "pointwise_loss_grad";
  PointwiseLoss fn;
  Reduction reduction;
  bool by_target;
  PointwiseLossGrad(PointwiseLoss f, Reduction r, bool t) : fn(f), reduction(r), by_target(t) {}
  const char* name() const override {
    return fn == PointwiseLoss::mse ? "mse_loss_grad" : "bce_with_logits_grad";
  }
  Specs infer(const Tensors& in, Loc) const override { return {{in[1].shape(), in[1].dtype()}}; }
  double flops(const Tensors& in, const Tensors&) const override {
    return (fn == PointwiseLoss::mse ? 3 : 14) * static_cast<double>(in[1].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const backend::View to = out[0].view_of(), none;
    TT_KERNEL(in[0], pointwise_loss_grad(fn, by_target ? none : to, by_target ? to : none, in[0].view_of(),
                                         in[1].view_of(), in[2].view_of(), loss_reduction(reduction)));
  }
  bool differentiable() const override { return false; }
};

namespace vjp {

inline Tensors cross_entropy(const Tensor& g, const Saved& s, const CrossEntropyOptions& options) {
  return {apply(CrossEntropyGrad(options), {g, s.inputs[0], s.inputs[1], s.outputs[1]}), Tensor()};
}
// Gradients of a loss of x and the target; op_by(by_target) is the primitive of one of them.
template <class OpBy>
Tensors pair_gradients(const Tensor& g, const Saved& s, OpBy op_by) {
  Tensors grads(2);
  for (size_t k = 0; k < 2; ++k) {
    if (s.needs_grad[k]) grads[k] = apply(op_by(k == 1), {g, s.inputs[0], s.inputs[1]});
  }
  return grads;
}
inline Tensors pointwise_loss(const Tensor& g, const Saved& s, PointwiseLoss fn, Reduction reduction) {
  return pair_gradients(g, s, [&](bool by_target) { return PointwiseLossGrad(fn, reduction, by_target); });
}

}  // namespace vjp
}  // namespace tinytorch::inline TT_BUILD
#endif
