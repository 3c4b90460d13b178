// Derivative of interpolate: a linear function, whose transposed weights give the gradient.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/interpolate.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

Tensor resample(const Tensor& x, const backend::PlaneResampling& axes);

// dy -> dx of the shape that is given
struct InterpolateGrad final : Primitive<InterpolateGrad> {
  static constexpr const char* kName = "interpolate_grad";
  backend::PlaneResampling axes;
  Shape shape;
  InterpolateGrad(const backend::PlaneResampling& a, Shape s) : axes(a), shape(s) {}
  Specs infer(const Tensors& in, Loc) const override { return {{shape, in[0].dtype()}}; }
  double flops(const Tensors& in, const Tensors&) const override {
    return 6 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], interpolate_grad(out[0].view_of(), in[0].view_of(), axes));
  }
  Tensors vjp(const Saved&, const Tensors& g) const override { return {resample(g[0], axes)}; }
};

namespace vjp {
inline Tensor interpolate(const Tensor& g, const backend::PlaneResampling& axes, const Shape& shape) {
  return apply(InterpolateGrad(axes, shape), {g});
}
}  // namespace vjp

}  // namespace tinytorch::inline TT_BUILD
#endif
