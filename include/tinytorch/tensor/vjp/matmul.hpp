// Derivatives of the matrix product: for Y = A B, dA = dY B^T and dB = A^T dY.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/matmul.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

// dy [M, N], x [M, K] -> dweight [N, K], dbias [N]
struct LinearGradWeight final : Primitive<LinearGradWeight> {
  static constexpr const char* kName = "linear_grad_weight";
  Specs infer(const Tensors& in, Loc) const override {
    const int64_t N = in[0].shape()[1], K = in[1].shape()[1];
    return {{{N, K}, in[0].dtype()}, {{N}, in[0].dtype()}};
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    return 2.0 * static_cast<double>(out[0].numel()) * static_cast<double>(in[0].shape()[0]);
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0],
              linear_grad_weight(out[0].view_of(), out[1].view_of(), in[0].view_of(), in[1].view_of()));
  }
  Save saves() const override { return Save::inputs; }
  size_t differentiable_outputs() const override { return 2; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const Tensor &dy = s.inputs[0], &x = s.inputs[1];
    const bool bias = g.size() > 1 && g[1].defined();
    const Tensor of_dy = s.needs_grad[0] ? tinytorch::matmul(x, g[0].t()) : Tensor();
    return {of_dy.defined() && bias ? of_dy + g[1] : of_dy,
            s.needs_grad[1] ? tinytorch::matmul(dy, g[0]) : Tensor()};
  }
};

}  // namespace tinytorch::inline TT_BUILD

namespace tinytorch::inline TT_BUILD::vjp {

inline Tensor matmul_left(const Tensor& g, const Tensor& b) { return tinytorch::matmul(g, b.t()); }
inline Tensor matmul_right(const Tensor& g, const Tensor& a) { return tinytorch::matmul(a.t(), g); }

// y = x W^T + b, x [M, K], W [N, K]: dx = g W, dW = g^T x, db = column sums of g.
inline Tensors linear(const Tensor& g, const Tensor& x, const Tensor& weight,
                      const std::vector<bool>& needs) {
  const Tensor dx = needs[0] ? tinytorch::matmul(g, weight) : Tensor();
  if (needs[1] && needs[2]) {
    const Tensors of_both = apply_all(LinearGradWeight(), {g, x});
    return {dx, of_both[0], of_both[1]};
  }
  return {dx, needs[1] ? tinytorch::matmul(g.t(), x) : Tensor(),
          needs[2] ? tinytorch::sum(g, {0}) : Tensor()};
}

}  // namespace tinytorch::inline TT_BUILD::vjp
#endif
