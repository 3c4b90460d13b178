// Derivatives of softmax and log_softmax, which need only the output y:
//   softmax   dx = y (dy - sum(dy y))      log_softmax   dx = dy - exp(y) sum(dy)
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/softmax.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

// dy, y -> dx; dim must not be negative
struct SoftmaxGrad final : Primitive<SoftmaxGrad> {
  static constexpr const char* kName = "softmax_grad";
  int dim;
  bool logarithm;
  SoftmaxGrad(int d, bool l) : dim(d), logarithm(l) {}
  const char* name() const override { return logarithm ? "log_softmax_grad" : kName; }
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  double flops(const Tensors& in, const Tensors&) const override {
    return (logarithm ? 13 : 4) * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    if (logarithm) {
      TT_KERNEL(out[0], log_softmax_grad(out[0].view_of(), in[0].view_of(), in[1].view_of(), dim));
    } else {
      TT_KERNEL(out[0], softmax_grad(out[0].view_of(), in[0].view_of(), in[1].view_of(), dim));
    }
  }
  // With up = the gradient of dx:
  //   softmax       of dy: the same kernel; of y: up (dy - sum(dy y)) - dy sum(up y)
  //   log_softmax   of dy: up - sum(up exp(y)); of y: -up exp(y) sum(dy)
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const Tensor &up = g[0], &dy = s.inputs[0], &y = s.inputs[1];
    const auto total = [this](const Tensor& x) { return sum(x, {dim}, true); };
    if (logarithm) {
      const Tensor p = exp(y);
      return {up - total(up * p), s.needs_grad[1] ? -(up * p * total(dy)) : Tensor()};
    }
    return {apply(*this, {up, y}),
            s.needs_grad[1] ? up * (dy - total(dy * y)) - dy * total(up * y) : Tensor()};
  }
};

namespace vjp {
inline Tensor softmax(const Tensor& g, const Tensor& y, int dim) {
  return apply(SoftmaxGrad(dim, false), {g, y});
}
inline Tensor log_softmax(const Tensor& g, const Tensor& y, int dim) {
  return apply(SoftmaxGrad(dim, true), {g, y});
}
}  // namespace vjp

}  // namespace tinytorch::inline TT_BUILD
#endif
