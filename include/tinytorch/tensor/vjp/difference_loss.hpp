// Derivatives of l1_loss, smooth_l1_loss and huber_loss (the formulas: backend/difference_loss.hpp).
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/difference_loss.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/vjp/loss.hpp>

namespace tinytorch::inline TT_BUILD {

// grad, x, target -> dx or dtarget
struct DifferenceLossGrad final : Primitive<DifferenceLossGrad> {
  static constexpr const char* kName = "difference_loss_grad";
  backend::DifferenceLoss parameters;
  Reduction reduction;
  bool by_target;
  DifferenceLossGrad(backend::DifferenceLoss p, Reduction r, bool t)
      : parameters(p), reduction(r), by_target(t) {}
  Specs infer(const Tensors& in, Loc) const override { return {{in[1].shape(), in[1].dtype()}}; }
  double flops(const Tensors& in, const Tensors&) const override {
    return 5 * static_cast<double>(in[1].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const backend::View to = out[0].view_of(), none;
    TT_KERNEL(in[0],
              difference_loss_grad(parameters, by_target ? none : to, by_target ? to : none, in[0].view_of(),
                                   in[1].view_of(), in[2].view_of(), loss_reduction(reduction)));
  }
  bool differentiable() const override { return false; }
};

namespace vjp {

inline Tensors difference_loss(const Tensor& g, const Saved& s, const backend::DifferenceLoss& parameters,
                               Reduction reduction) {
  return pair_gradients(g, s,
                        [&](bool by_target) { return DifferenceLossGrad(parameters, reduction, by_target); });
}

}  // namespace vjp
}  // namespace tinytorch::inline TT_BUILD
#endif
