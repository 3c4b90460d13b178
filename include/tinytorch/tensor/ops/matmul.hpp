// Matrix products: matmul with batch broadcasting, and linear (x W^T + b, with the bias added in the
// epilogue).
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/matmul.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/matmul.hpp>

namespace tinytorch::inline TT_BUILD {

// [..., M, K] x [..., K, N] -> [..., M, N], both of rank 2 or more; bool gives i32.
struct MatMul final : Primitive<MatMul> {
  static constexpr const char* kName = "matmul";

  static Shape batch_of(const Shape& s) { return Shape(s.begin(), s.end() - 2); }
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    const Shape &a = in[0].shape(), &b = in[1].shape();
    const int64_t M = a[a.size() - 2], K = a.back(), N = b.back();
    if (K != b[b.size() - 2]) {
      fail("TT-SHAPE-02",
           "matmul: inner sizes differ: " + describe_operands(in) +
               "\n  rule: [..., M, K] x [..., K, N]: " + std::to_string(K) + " is not " +
               std::to_string(b[b.size() - 2]) + "\n  hint: transpose one operand with .t()",
           loc);
    }
    const auto batch = broadcast_shapes(batch_of(a), batch_of(b));
    if (!batch)
      fail("TT-SHAPE-02", "matmul: batch dimensions do not broadcast: " + describe_operands(in), loc);
    Shape shape = *batch;
    shape.push_back(M);
    shape.push_back(N);
    const DType t = in[0].dtype();
    return {{shape, t == DType::boolean ? DType::i32 : t}};
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    return 2.0 * static_cast<double>(out[0].numel()) * static_cast<double>(in[0].shape().back());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const Shape batch = batch_of(out[0].shape());
    TT_KERNEL(out[0], matmul(out[0].view_of(), batched(in[0], batch), batched(in[1], batch)));
  }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return {s.needs_grad[0] ? sum_to(vjp::matmul_left(g[0], s.inputs[1]), s.input_shapes[0]) : Tensor(),
            s.needs_grad[1] ? sum_to(vjp::matmul_right(g[0], s.inputs[0]), s.input_shapes[1]) : Tensor()};
  }

 private:
  // A view of t, broadcast to the batch dimensions of the result.
  static backend::View batched(const Tensor& t, const Shape& batch) {
    Shape shape = batch;
    for (int d : {t.rank() - 2, t.rank() - 1}) shape.push_back(t.shape()[d]);
    backend::View v = t.view_of();
    v.strides = broadcast_strides(t.shape(), t.strides(), shape);
    v.shape = shape;
    return v;
  }
};

// x [M, K], weight [N, K], bias [N] or undefined -> [M, N]
struct Linear2d final : Primitive<Linear2d> {
  static constexpr const char* kName = "linear";
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    require_floating(kName, in[0], loc);
    require_rank(kName, in[1], 2, "a weight [N, K]", loc);
    const int64_t M = in[0].shape()[0], K = in[0].shape()[1], N = in[1].shape()[0];
    if (K != in[1].shape()[1] || (in[2].defined() && !(in[2].shape() == Shape{N}))) {
      fail("TT-SHAPE-02",
           "linear: sizes differ: " + describe_operands(in) +
               "\n  rule: x [..., K], weight [N, K], bias [N]: the last size of x is the second of weight",
           loc);
    }
    return {{{M, N}, in[0].dtype()}};
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    return 2.0 * static_cast<double>(out[0].numel()) * static_cast<double>(in[0].shape().back());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], linear(out[0].view_of(), in[0].view_of(), in[1].view_of(), view_or_none(in[2])));
  }
  Save saves() const override { return Save::inputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    return vjp::linear(g[0], s.inputs[0], s.inputs[1], s.needs_grad);
  }
};

TT_API Tensor matmul(const Tensor& a, const Tensor& b, Loc loc) {
  require_defined("matmul", loc, a, b);
  if (a.rank() == 0 || b.rank() == 0) {
    fail("TT-SHAPE-04",
         "matmul: needs at least rank 1: " + describe_operands({a, b}) + "\n  hint: use * for scalars", loc);
  }
  if (a.rank() == 1) return squeeze(matmul(unsqueeze(a, 0, loc), b, loc), b.rank() == 1 ? 0 : -2, loc);
  if (b.rank() == 1) return squeeze(matmul(a, unsqueeze(b, 1, loc), loc), -1, loc);
  if (a.rank() > 2 && b.rank() == 2 && a.is_contiguous() &&
      a.numel() > 0) {  // one tall product instead of a batch of small ones
    Shape shape = a.shape();
    shape.back() = b.shape()[1];
    if (a.shape().back() == b.shape()[0]) {
      return reshape(apply(MatMul(), {reshape(a, {-1, a.shape().back()}, loc), b}, loc), shape, loc);
    }
  }
  return apply(MatMul(), {a, b}, loc);
}

// Applies f, which maps rows [M, K] to [M, N], to x [..., K]; the result is [..., N].
template <class F>
Tensor over_rows(const char* op, const Tensor& x, Loc loc, F&& f) {
  if (x.rank() == 2) return f(x);
  if (x.rank() == 0) {
    fail("TT-SHAPE-04", std::string(op) + ": x needs at least rank 1, got " + x.describe(), loc);
  }
  Shape shape = x.shape();
  const int64_t K = shape.back();
  shape.pop_back();
  const Tensor y = f(reshape(x, {shape.numel(), K}, loc));
  shape.push_back(y.shape()[1]);
  return reshape(y, shape, loc);
}
TT_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Loc loc) {
  require_defined("linear", loc, x, weight);
  return over_rows("linear", x, loc, [&](const Tensor& rows) {
    return apply(Linear2d(), {rows, weight, bias}, loc);
  });
}

}  // namespace tinytorch::inline TT_BUILD
#endif
