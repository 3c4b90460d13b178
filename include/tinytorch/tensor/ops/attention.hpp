// scaled_dot_product_attention: softmax(scale q k^T + mask) v.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_TENSOR_BODIES
#include <cmath>
#include <tinytorch/backend/cpu/attention.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops/norm.hpp>
#include <tinytorch/tensor/ops/shape.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/attention.hpp>

namespace tinytorch::inline TT_BUILD {

// q, k, v -> out [B, T, H, D], lse [B, H, T] (the logarithms of the sums of exponentials, for the derivative)
struct AttentionOp final : Primitive<AttentionOp> {
  static constexpr const char* kName = "scaled_dot_product_attention";
  backend::AttentionParameters parameters;
  explicit AttentionOp(const backend::AttentionParameters& p) : parameters(p) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    require_floating(kName, in[0], loc);
    for (const Tensor& t : in) require_rank(kName, t, 4, "[B, H, T, D]", loc);
    const Shape &q = in[0].shape(), &k = in[1].shape();
    const bool fits = in[2].shape() == k && q[0] == k[0] && q[3] == k[3] && q[3] > 0 &&
                      (k[1] > 0 ? q[1] % k[1] == 0 : q[1] == 0);
    if (!fits) {
      fail(
          "TT-SHAPE-02",
          std::string(kName) + ": sizes differ: " + describe_operands(in) +
              "\n  rule: q [B, H, T, D], k and v [B, G, S, D], G divides H, D >= 1\n  hint: with x [B, T, C] "
              "split heads by x.reshape({B, T, H, D}).transpose(1, 2)",
          loc);
    }
    return {{{q[0], q[2], q[1], q[3]}, in[0].dtype()}, {{q[0], q[1], q[2]}, statistics_dtype(in[0].dtype())}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return attention_flops(in[0].shape(), in[1].shape(), parameters, 2);
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], attention(heads_first(out[0]), out[1].view_of(), in[0].view_of(), in[1].view_of(),
                                in[2].view_of(), parameters));
  }
  Save saves() const override { return Save::both; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::attention(g[0], s, parameters); }
};

TT_API Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const AttentionOptions& options, Generator& generator, Loc loc) {
  const std::string op = AttentionOp::kName;
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    fail("TT-RANGE-02", op + ": dropout must be from 0 to 1, got " + std::to_string(options.dropout), loc);
  }
  if (options.window < 0) {
    fail("TT-RANGE-02",
         op + ": window must not be negative, got " + std::to_string(options.window) +
             "\n  hint: 0 means that every key is near enough",
         loc);
  }
  require_rank(op.c_str(), q, 4, "[B, H, T, D]", loc);
  require_rank(op.c_str(), k, 4, "[B, H, T, D]", loc);
  backend::AttentionParameters p;
  p.scale = options.scale == 0 ? 1 / std::sqrt(static_cast<double>(q.shape()[3])) : options.scale;
  p.causal = options.causal;
  p.window = options.window;
  p.p = options.dropout;
  if (p.p > 0) {
    const int64_t lines = q.shape()[0] * q.shape()[1] * q.shape()[2];
    p.seed = generator.state().seed;
    p.first_block = generator.reserve(p.dropout_blocks(lines, k.shape()[2]));
  }
  return transpose(apply_all(AttentionOp(p), {q, k, v}, loc)[0], 1, 2, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
