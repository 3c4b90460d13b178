// Derivatives of attention: one kernel computes dq, dk and dv (backend/cpu/attention_grad.hpp).
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/attention_grad.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

// The view [B, H, T, D], which attention kernels take, of a tensor [B, T, H, D].
inline backend::View heads_first(const Tensor& x) {
  backend::View v = x.view_of();
  std::swap(v.shape[1], v.shape[2]);
  std::swap(v.strides[1], v.strides[2]);
  return v;
}

// The views [B, heads, T, D] of queries, keys and values in packed QKV [B, T, (H + 2 G) D].
struct PackedQkv {
  int64_t H, G, D;
  PackedQkv(int64_t heads, int64_t groups, int64_t joined_size)
      : H(heads), G(groups), D(joined_size / (heads + 2 * groups)) {}

  backend::View queries(const Tensor& x) const { return part(x, 0, H); }
  backend::View keys(const Tensor& x) const { return part(x, H, G); }
  backend::View values(const Tensor& x) const { return part(x, H + G, G); }

 private:
  backend::View part(const Tensor& x, int64_t first, int64_t heads) const {
    backend::View v = x.view_of();
    const int64_t row = v.strides[1], col = v.strides[2], offset = first * D * col;
    v.data = static_cast<char*>(v.data) + offset * static_cast<int64_t>(size_of(x.dtype()));
    v.shape = {x.shape()[0], heads, x.shape()[1], D};
    v.strides = {v.strides[0], D * col, row, col};
    return v;
  }
};

// `p` with the lengths of a call, which are the optional operand in[place].
inline backend::AttentionParameters with_lengths(backend::AttentionParameters p, const Tensors& in,
                                                 size_t place) {
  if (in.size() > place) p.lengths = in[place].view_of().as<const int64_t>();
  return p;
}

// FLOPs of `products` matrix products over the pairs of query and key that the mask allows (causal and
// window; lengths are not considered). B is the number of samples times heads.
inline double attention_flops(int64_t B, int64_t T, int64_t S, int64_t D,
                              const backend::AttentionParameters& p, int products) {
  double pairs = 0;
  for (int64_t t = 0; t < T; ++t) {
    const backend::IndexRange range = p.keys_of(t, T, S, 0);
    pairs += static_cast<double>(std::max<int64_t>(range.last - range.first, 0));
  }
  return 2.0 * products * static_cast<double>(B * D) * pairs;
}

// dout, q, k, v, out, lse (, lengths) -> dq [B, T, H, D], dk, dv [B, S, G, D]. dout and out are [B, T, H, D].
struct AttentionGrad final : RandomPrimitive<AttentionGrad> {
  static constexpr const char* kName = "scaled_dot_product_attention_grad";
  backend::AttentionParameters parameters;
  explicit AttentionGrad(const backend::AttentionParameters& p) : parameters(p) {}

  Specs infer(const Tensors& in, Loc) const override {
    const Shape &q = in[1].shape(), &k = in[2].shape();
    const Spec dq{{q[0], q[2], q[1], q[3]}, in[1].dtype()}, dk{{k[0], k[2], k[1], k[3]}, in[1].dtype()};
    return {dq, dk, dk};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    const Shape &q = in[1].shape(), &k = in[2].shape();
    return attention_flops(q[0] * q[1], q[2], k[2], q[3], parameters, 5);
  }
  void run(const Tensors& in, Tensors& out) const override {
    const backend::AttentionParameters p = with_lengths(parameters, in, 6);
    TT_KERNEL(out[0], attention_grad(heads_first(out[0]), heads_first(out[1]), heads_first(out[2]),
                                     heads_first(in[0]), in[1].view_of(), in[2].view_of(), in[3].view_of(),
                                     heads_first(in[4]), in[5].view_of(), p));
  }
  bool differentiable() const override { return false; }
};

// dout, qkv, out, lse (, lengths) -> dqkv [B, T, (H + 2 G) D]. dout and out are [B, T, H D].
struct JoinedAttentionGrad final : RandomPrimitive<JoinedAttentionGrad> {
  static constexpr const char* kName = "joined_attention_grad";
  backend::AttentionParameters parameters;
  int64_t H, G;
  JoinedAttentionGrad(const backend::AttentionParameters& p, int64_t heads, int64_t groups)
      : parameters(p), H(heads), G(groups) {}

  Specs infer(const Tensors& in, Loc) const override { return {{in[1].shape(), in[1].dtype()}}; }
  double flops(const Tensors& in, const Tensors&) const override {
    const Shape& x = in[1].shape();
    return attention_flops(x[0] * H, x[1], x[1], x[2] / (H + 2 * G), parameters, 5);
  }
  void run(const Tensors& in, Tensors& out) const override {
    const PackedQkv of(H, G, in[1].shape()[2]);
    const backend::AttentionParameters p = with_lengths(parameters, in, 4);
    TT_KERNEL(out[0], attention_grad(of.queries(out[0]), of.keys(out[0]), of.values(out[0]),
                                     of.queries(in[0]), of.queries(in[1]), of.keys(in[1]), of.values(in[1]),
                                     of.queries(in[2]), in[3].view_of(), p));
  }
  bool differentiable() const override { return false; }
};

namespace vjp {
// Inputs q, k, v (, lengths); outputs out, lse. g is [B, T, H, D].
inline Tensors attention(const Tensor& g, const Saved& s, const backend::AttentionParameters& p) {
  Tensors operands{g, s.inputs[0], s.inputs[1], s.inputs[2], s.outputs[0], s.outputs[1]};
  if (s.inputs.size() > 3) operands.push_back(s.inputs[3]);
  Tensors grads = apply_all(AttentionGrad(p), operands);
  for (Tensor& t : grads) t = tinytorch::transpose(t, 1, 2);
  grads.resize(s.inputs.size());
  return grads;
}
// Inputs qkv (, lengths); outputs out, lse. g is [B, T, H D].
inline Tensors joined_attention(const Tensor& g, const Saved& s, const backend::AttentionParameters& p,
                                int64_t heads, int64_t groups) {
  Tensors operands{g, s.inputs[0], s.outputs[0], s.outputs[1]};
  if (s.inputs.size() > 1) operands.push_back(s.inputs[1]);
  Tensors grads = apply_all(JoinedAttentionGrad(p, heads, groups), operands);
  grads.resize(s.inputs.size());
  return grads;
}
}  // namespace vjp

}  // namespace tinytorch::inline TT_BUILD
#endif
