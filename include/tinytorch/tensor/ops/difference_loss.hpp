// l1_loss, smooth_l1_loss and huber_loss: one pass over x and the target, as in mse_loss (loss.hpp).
//
// x and target have the same shape (TT-SHAPE-02) and floating dtype, and both have derivatives. Names and
// semantics are PyTorch's.
#pragma once

#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

// |x - target|
TT_API Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean, TT_LOC);
// d = |x - target|: d^2 / (2 beta) below beta, else d - beta / 2. beta >= 0, TT-RANGE-08 otherwise.
TT_API Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                             Reduction reduction = Reduction::mean, TT_LOC);
inline Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction reduction, double beta = 1,
                             TT_LOC) {
  return smooth_l1_loss(x, target, beta, reduction, loc);  // PyTorch's order of the arguments
}
// d = |x - target|: d^2 / 2 up to delta, else delta (d - delta / 2). delta > 0, TT-RANGE-08 otherwise.
TT_API Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1,
                         Reduction reduction = Reduction::mean, TT_LOC);
inline Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction, double delta = 1,
                         TT_LOC) {
  return huber_loss(x, target, delta, reduction, loc);  // PyTorch's order of the arguments
}

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/difference_loss.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops/composed_losses.hpp>
#include <tinytorch/tensor/vjp/difference_loss.hpp>

namespace tinytorch::inline TT_BUILD {

// x and target of the same shape -> loss [], or of that shape for Reduction::none
struct DifferenceLossOp final : Primitive<DifferenceLossOp> {
  static constexpr const char* kName = "difference_loss";
  const char* function;
  backend::DifferenceLoss parameters;
  Reduction reduction;
  DifferenceLossOp(const char* f, backend::DifferenceLoss p, Reduction r)
      : function(f), parameters(p), reduction(r) {}

  const char* name() const override { return function; }
  Specs infer(const Tensors& in, Loc loc) const override {
    require_pairs(function, in, loc);
    return {{reduction == Reduction::none ? in[0].shape() : Shape{}, in[0].dtype()}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return (parameters.delta > 0 ? 7 : 4) * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], difference_loss(parameters, out[0].view_of(), in[0].view_of(), in[1].view_of(),
                                      loss_reduction(reduction)));
  }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return vjp::difference_loss(g[0], s, parameters, reduction);
  }
  Tensors composed(const Tensors& in) const override {
    const double delta = parameters.delta;
    const Tensor size = abs(in[0] - in[1]);
    Tensor each = size;
    if (delta > 0) each = where(size <= delta, square(size) * 0.5, (size - 0.5 * delta) * delta);
    return {reduced(each * parameters.factor, reduction, Loc::current())};
  }
};

TT_API Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction, Loc loc) {
  return apply(DifferenceLossOp("l1_loss", {}, reduction), {x, target}, loc);
}
TT_API Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, Reduction reduction,
                             Loc loc) {
  require_option(beta >= 0, "smooth_l1_loss: beta must be >= 0", loc);
  // Below this beta, 1 / beta could overflow in f32, and the loss differs from |x - target| by less than
  // beta.
  const bool smooth = beta > 1e-30;
  const backend::DifferenceLoss parameters{smooth ? beta : 0, smooth ? 1 / beta : 1};
  return apply(DifferenceLossOp("smooth_l1_loss", parameters, reduction), {x, target}, loc);
}
TT_API Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, Reduction reduction, Loc loc) {
  require_option(delta > 0, "huber_loss: delta must be above 0", loc);
  return apply(DifferenceLossOp("huber_loss", {.delta = delta}, reduction), {x, target}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
