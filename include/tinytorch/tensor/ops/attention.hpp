// Attention: scaled_dot_product_attention for separate q, k, v, and joined_attention for packed QKV.
//
//   softmax(scale q k^T + mask) v
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <cmath>
#include <tinytorch/backend/cpu/attention.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops/shape.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/attention.hpp>

namespace tinytorch::inline TT_BUILD {

// Checks `lengths`, an optional operand: in[place], if it is present.
inline void require_lengths(const char* op, const Tensors& in, size_t place, Loc loc) {
  if (in.size() <= place) return;
  const Tensor& lengths = in[place];
  if (lengths.dtype() == DType::i64 && lengths.shape() == Shape{in[0].shape()[0]} && lengths.is_contiguous())
    return;
  fail("TT-SHAPE-02",
       std::string(op) + ": lengths must be i64 [B], contiguous, with B " + std::to_string(in[0].shape()[0]) +
           ", got " + lengths.describe(),
       loc);
}

// q, k, v (, lengths) -> out [B, T, H, D], lse [B, H, T] (log-sum-exp of the scores, for the derivative)
struct AttentionOp final : RandomPrimitive<AttentionOp> {
  static constexpr const char* kName = "scaled_dot_product_attention";
  backend::AttentionParameters parameters;
  explicit AttentionOp(const backend::AttentionParameters& p) : parameters(p) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    const Tensors operands(in.begin(), in.begin() + 3);
    require_same_dtype(kName, operands, loc);
    require_floating(kName, in[0], loc);
    for (const Tensor& t : operands) require_rank(kName, t, 4, "[B, H, T, D]", loc);
    const Shape &q = in[0].shape(), &k = in[1].shape();
    const bool fits = in[2].shape() == k && q[0] == k[0] && q[3] == k[3] && q[3] > 0 &&
                      (k[1] > 0 ? q[1] % k[1] == 0 : q[1] == 0);
    if (!fits) {
      fail(
          "TT-SHAPE-02",
          std::string(kName) + ": sizes differ: " + describe_operands(operands) +
              "\n  rule: q [B, H, T, D], k and v [B, G, S, D], G divides H, D >= 1\n  hint: with x [B, T, C] "
              "split heads by x.reshape({B, T, H, D}).transpose(1, 2)",
          loc);
    }
    require_lengths(kName, in, 3, loc);
    return {{{q[0], q[2], q[1], q[3]}, in[0].dtype()}, {{q[0], q[1], q[2]}, statistics_dtype(in[0].dtype())}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    const Shape &q = in[0].shape(), &k = in[1].shape();
    return attention_flops(q[0] * q[1], q[2], k[2], q[3], parameters, 2);
  }
  void run(const Tensors& in, Tensors& out) const override {
    const backend::AttentionParameters p = with_lengths(parameters, in, 3);
    TT_KERNEL(out[0], attention(heads_first(out[0]), out[1].view_of(), in[0].view_of(), in[1].view_of(),
                                in[2].view_of(), p));
  }
  Save saves() const override { return Save::both; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::attention(g[0], s, parameters); }
};

// Packed QKV [B, T, (H + 2 G) D] (, lengths) -> out [B, T, H D], lse [B, H, T]
struct JoinedAttention final : RandomPrimitive<JoinedAttention> {
  static constexpr const char* kName = "joined_attention";
  backend::AttentionParameters parameters;
  int64_t H, G;
  JoinedAttention(const backend::AttentionParameters& p, int64_t heads, int64_t groups)
      : parameters(p), H(heads), G(groups) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    require_floating(kName, in[0], loc);
    const Shape& x = in[0].shape();
    require_lengths(kName, in, 1, loc);
    const int64_t D = x[2] / (H + 2 * G);
    return {{{x[0], x[1], H * D}, in[0].dtype()}, {{x[0], H, x[1]}, statistics_dtype(in[0].dtype())}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    const Shape& x = in[0].shape();
    return attention_flops(x[0] * H, x[1], x[1], x[2] / (H + 2 * G), parameters, 2);
  }
  void run(const Tensors& in, Tensors& out) const override {
    const PackedQkv of(H, G, in[0].shape()[2]);
    const backend::AttentionParameters p = with_lengths(parameters, in, 1);
    TT_KERNEL(out[0], attention(of.queries(out[0]), out[1].view_of(), of.queries(in[0]), of.keys(in[0]),
                                of.values(in[0]), p));
  }
  Save saves() const override { return Save::both; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return vjp::joined_attention(g[0], s, parameters, H, G);
  }
};

// The parameters of the kernels. D is the size of a head, lines the number of rows of scores (B H T), S the
// number of keys.
inline backend::AttentionParameters attention_parameters(const char* op, const AttentionOptions& options,
                                                         int64_t D, int64_t lines, int64_t S,
                                                         Generator& generator, Loc loc) {
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    fail("TT-RANGE-02",
         std::string(op) + ": dropout must be from 0 to 1, got " + std::to_string(options.dropout), loc);
  }
  if (options.window < 0) {
    fail("TT-RANGE-02",
         std::string(op) + ": window must not be negative, got " + std::to_string(options.window) +
             "\n  hint: 0 means no window",
         loc);
  }
  backend::AttentionParameters p;
  p.scale = options.scale == 0 ? 1 / std::sqrt(static_cast<double>(D)) : options.scale;
  p.causal = options.causal;
  p.window = options.window;
  p.p = options.dropout;
  if (p.p > 0) {
    p.seed = generator.state().seed;
    p.first_block = generator.reserve(p.dropout_blocks(lines, S));
  }
  return p;
}

TT_API Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const AttentionOptions& options, Generator& generator, Loc loc) {
  require_defined("scaled_dot_product_attention", loc, q, k, v);
  require_rank(AttentionOp::kName, q, 4, "[B, H, T, D]", loc);
  require_rank(AttentionOp::kName, k, 4, "[B, H, T, D]", loc);
  const Shape& shape = q.shape();
  const backend::AttentionParameters p = attention_parameters(
      AttentionOp::kName, options, shape[3], shape[0] * shape[1] * shape[2], k.shape()[2], generator, loc);
  Tensors operands{q, k, v};
  if (options.lengths.defined()) operands.push_back(options.lengths);
  return transpose(apply_all(AttentionOp(p), operands, loc)[0], 1, 2, loc);
}
TT_API Tensor joined_attention(const Tensor& qkv, int64_t heads, int64_t groups,
                               const AttentionOptions& options, Generator& generator, Loc loc) {
  require_defined("joined_attention", loc, qkv);
  const std::string op = JoinedAttention::kName;
  require_rank(op.c_str(), qkv, 3, "[B, T, (H + 2 G) D]", loc);
  const Shape& shape = qkv.shape();
  const int64_t joined = heads + 2 * groups;
  if (heads < 1 || groups < 1 || heads % groups != 0 || shape[2] < joined || shape[2] % joined != 0) {
    fail(
        "TT-SHAPE-02",
        op + ": " + qkv.describe() + " does not hold " + std::to_string(heads) + " heads and " +
            std::to_string(groups) +
            " groups\n  rule: qkv [B, T, (H + 2 G) D], G divides H\n  hint: it is the product x W^T with the "
            "rows of W in the order queries, keys, values",
        loc);
  }
  const backend::AttentionParameters p = attention_parameters(
      op.c_str(), options, shape[2] / joined, shape[0] * heads * shape[1], shape[1], generator, loc);
  Tensors operands{qkv};
  if (options.lengths.defined()) operands.push_back(options.lengths);
  return apply_all(JoinedAttention(p, heads, groups), operands, loc)[0];
}

}  // namespace tinytorch::inline TT_BUILD
#endif
