// Derivative of scaled_dot_product_attention: one pass gives dq, dk and dv (backend/cpu/attention_grad.hpp).
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_TENSOR_BODIES
#include <tinytorch/backend/cpu/attention_grad.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

// A tensor [B, T, H, D] as kernels of attention see it: [B, H, T, D].
inline backend::View heads_first(const Tensor& x) {
  backend::View v = x.view_of();
  std::swap(v.shape[1], v.shape[2]);
  std::swap(v.strides[1], v.strides[2]);
  return v;
}

// `products` matrix products over the pairs of query and key that are not masked. q [B, H, T, D], k [B, G, S,
// D].
inline double attention_flops(const Shape& q, const Shape& k, const backend::AttentionParameters& p,
                              int products) {
  double pairs = 0;
  for (int64_t t = 0; t < q[2]; ++t) {
    const backend::IndexRange range = p.keys_of(t, q[2], k[2]);
    pairs += static_cast<double>(std::max<int64_t>(range.last - range.first, 0));
  }
  return 2.0 * products * static_cast<double>(q[0] * q[1] * q[3]) * pairs;
}

// dout, q, k, v, out, lse -> dq [B, T, H, D], dk, dv [B, S, G, D]. dout and out [B, T, H, D].
struct AttentionGrad final : Primitive<AttentionGrad> {
  static constexpr const char* kName = "scaled_dot_product_attention_grad";
  backend::AttentionParameters parameters;
  explicit AttentionGrad(const backend::AttentionParameters& p) : parameters(p) {}

  Specs infer(const Tensors& in, Loc) const override {
    const Shape &q = in[1].shape(), &k = in[2].shape();
    const Spec dq{{q[0], q[2], q[1], q[3]}, in[1].dtype()}, dk{{k[0], k[2], k[1], k[3]}, in[1].dtype()};
    return {dq, dk, dk};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return attention_flops(in[1].shape(), in[2].shape(), parameters, 5);
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], attention_grad(heads_first(out[0]), heads_first(out[1]), heads_first(out[2]),
                                     heads_first(in[0]), in[1].view_of(), in[2].view_of(), in[3].view_of(),
                                     heads_first(in[4]), in[5].view_of(), parameters));
  }
  bool differentiable() const override { return false; }
};

namespace vjp {
// Inputs q, k, v; outputs out, lse. g [B, T, H, D].
inline Tensors attention(const Tensor& g, const Saved& s, const backend::AttentionParameters& p) {
  Tensors grads =
      apply_all(AttentionGrad(p), {g, s.inputs[0], s.inputs[1], s.inputs[2], s.outputs[0], s.outputs[1]});
  for (Tensor& t : grads) t = tinytorch::transpose(t, 1, 2);
  return grads;
}
}  // namespace vjp

}  // namespace tinytorch::inline TT_BUILD

#include <tinytorch/tensor/ops/shape.hpp>
#endif
